#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

// What the kernel says the process has needed at most.
inline long PeakKib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") {
      status >> word;
      return std::atol(word.c_str());
    }
  }
  return 0;
}
