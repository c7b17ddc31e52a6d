/* execl and its relatives: collect the arguments, then continue as execve. */

#include <alloca.h>
#include <stdarg.h>
#include <stddef.h>

extern char **environ;
int softband_shim_exec(const char *path, char *const argv[], char *const envp[], int search);

/* Fills argv (unless it is NULL) and returns the number of arguments before the NULL. Sets
 * *environment to the argument after it. */
static size_t collect(const char *first, va_list arguments, const char **argv, char *const **environment) {
    size_t count = 0;
    for (const char *argument = first; argument != NULL; argument = va_arg(arguments, const char *)) {
        if (argv != NULL) argv[count] = argument;
        count++;
    }
    if (argv != NULL) argv[count] = NULL;
    if (environment != NULL) *environment = va_arg(arguments, char *const *);
    return count;
}

#define DEFINE_EXECL(name, search, environment_pointer)                         \
    int name(const char *path, const char *first, ...) {                       \
        char *const *environment = environ;                                    \
        va_list arguments;                                                     \
        va_start(arguments, first);                                            \
        size_t count = collect(first, arguments, NULL, NULL);                  \
        va_end(arguments);                                                     \
        const char **argv = alloca((count + 1) * sizeof *argv);                \
        va_start(arguments, first);                                            \
        collect(first, arguments, argv, environment_pointer);                  \
        va_end(arguments);                                                     \
        return softband_shim_exec(path, (char *const *)argv, environment, search); \
    }

DEFINE_EXECL(execl, 0, NULL)
DEFINE_EXECL(execlp, 1, NULL)
DEFINE_EXECL(execle, 0, &environment)
