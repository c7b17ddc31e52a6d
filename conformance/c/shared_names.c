/* Makes each kind of named shared memory below /dev/shm under fixed names, meets a neighbour there,
 * and lists the folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(int is_good, const char *what)
{
	if (!is_good) {
		printf("%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static int entries(void)
{
	DIR *folder = opendir("/dev/shm");
	int count = 0;
	for (struct dirent *entry; (entry = readdir(folder)); )
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

int main(int argc, char **argv)
{
	int pause_ms = argc > 1 ? atoi(argv[1]) : 0;
	int fd = shm_open("/job", O_RDWR | O_CREAT | O_EXCL, 0600);
	must(fd >= 0, "shm_open");
	must(shm_open("/job", O_RDWR | O_CREAT | O_EXCL, 0600) < 0 && errno == EEXIST, "a second shm_open");
	must(ftruncate(fd, 4096) == 0, "ftruncate");
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(page != MAP_FAILED, "mmap");

	int value = -1;
	sem_t *one = sem_open("/turn", O_CREAT | O_EXCL, 0600, 3), *again = sem_open("turn", 0);
	must(one != SEM_FAILED && one == again, "sem_open");
	must(sem_getvalue(again, &value) == 0 && value == 3, "the value of the semaphore");
	must(sem_open("/turn", O_CREAT | O_EXCL, 0600, 3) == SEM_FAILED && errno == EEXIST, "a second sem_open");
	must(sem_close(again) == 0 && sem_trywait(one) == 0, "one close of two");

	char name[] = "/dev/shm/part-XXXXXX";
	must(mkstemp(name) >= 0 && access(name, R_OK) == 0 && strlen(name) == 20, "mkstemp");
	FILE *file = fopen("/dev/shm/plain", "wx");
	must(file != NULL && fclose(file) == 0, "fopen");
	must(rename("/dev/shm/plain", "/dev/shm/other") == 0 && link("/dev/shm/other", "/dev/shm/third") == 0, "rename and link");
	must(mkdir("/dev/shm/folder", 0700) == 0 && symlink("/dev/shm/other", "/dev/shm/folder/link") == 0, "mkdir and symlink");
	must(access("/dev/shm/folder/link", R_OK) == 0 && access("/dev/shm/plain", R_OK) < 0, "access");
	must(chmod("/dev/shm/other", 0600) == 0 && truncate("/dev/shm/third", 8) == 0, "chmod and truncate");

	char folder[64];
	must(chdir("/dev/shm") == 0 && getcwd(folder, sizeof folder) && strcmp(folder, "/dev/shm") == 0, "chdir");
	must(access("folder/link", R_OK) == 0, "a path from the folder");
	must(unlink("/dev/shm/third") == 0 && remove("/dev/shm/folder/link") == 0 && rmdir("/dev/shm/folder") == 0, "removal");

	/* A child has the same files. */
	pid_t child = fork();
	if (child == 0) {
		int own = shm_open("/job", O_RDWR, 0);
		char *shared = own < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
		if (shared != MAP_FAILED)
			strcpy(shared, "met");
		_exit(0);
	}
	while (strcmp(page, "met") != 0)
		usleep(1000);
	usleep(1000 * pause_ms);
	printf("%d entries\n", entries());
	return 0;
}
