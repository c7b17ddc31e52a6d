module softband.example/bell

go 1.24
