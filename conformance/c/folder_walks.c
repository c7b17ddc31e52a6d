/* Looks at the files of the host's HCAs by the functions of the C library that walk through folders,
 * and from within. Prints each name that it finds. */
#define _GNU_SOURCE
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORT "/sys/class/infiniband/mlx5_0/ports/1"

static int seen;

static int show(const char *path, const struct stat *status, int kind, struct FTW *position) {
    (void)status;
    if (kind == FTW_F && strcmp(path + position->base, "lid") == 0) printf("nftw %s at level %d\n", path, position->level);
    return 0;
}

static int count(const char *path, const struct stat *status, int kind) {
    (void)status;
    if (strncmp(path, PORT, strlen(PORT)) != 0) return 1;
    seen += kind == FTW_F;
    return 0;
}

static void show_glob(const char *pattern, int flags) {
    glob_t found;
    int status = glob(pattern, flags, NULL, &found);
    printf("glob %d", status);
    for (size_t at = 0; status == 0 && at < found.gl_pathc; at++) printf(" %s", found.gl_pathv[at]);
    printf("\n");
    if (status == 0) globfree(&found);
}

static void show_fts(void) {
    char *paths[] = {PORT "/gids", NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int files = 0;
    for (FTSENT *entry; walk && (entry = fts_read(walk)) != NULL;) files += entry->fts_info == FTS_F;
    printf("fts %s\n", files > 0 ? "finds files" : "finds nothing");
    if (walk) fts_close(walk);
}

int main(void) {
    char folder[PATH_MAX];
    show_glob("/sys/class/infiniband/*", 0);
    show_glob("/sys/class/infiniband/mlx5_*/ports/*/lid", GLOB_MARK);
    show_glob("/sys/class/infiniband/mlx4_*", 0);
    if (nftw(PORT, show, 8, FTW_PHYS) != 0 || ftw(PORT, count, 8) != 0) return 1;
    printf("ftw %s\n", seen > 5 ? "finds files" : "finds nothing");
    show_fts();
    if (chdir("/sys/class/infiniband") != 0 || !getcwd(folder, sizeof folder)) return 1;
    char *name = get_current_dir_name();
    printf("in %s, %s, %s\n", folder, name, getcwd(folder, 4) ? "in four bytes" : "not in four bytes");
    free(name);
    show_glob("*", 0);
    printf("lid %s\n", access("mlx5_0/ports/1/lid", R_OK) == 0 ? "is there" : "is missing");
    return 0;
}
