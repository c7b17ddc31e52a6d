/* The name of a host, and the resolution of that name on the host itself. */
#include "check.h"
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/utsname.h>

int main(int count, char **arguments) {
    char name[256];
    struct utsname system;
    CHECK(gethostname(name, sizeof name) == 0 && uname(&system) == 0 && strcmp(name, system.nodename) == 0);
    if (is_simulated()) printf("host %s\n", name);
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    CHECK(getaddrinfo("localhost", "80", &hints, &found) == 0);
    CHECK(((struct sockaddr_in *)found->ai_addr)->sin_port == htons(80));
    freeaddrinfo(found);
    CHECK(gethostbyname("127.0.0.1") != NULL);
    struct ifaddrs *interfaces;
    CHECK(getifaddrs(&interfaces) == 0 && interfaces != NULL);
    freeifaddrs(interfaces);
    for (int i = 1; i < count; i++) { /* hosts of the fabric */
        char back[256];
        CHECK(getaddrinfo(arguments[i], NULL, &hints, &found) == 0);
        CHECK(getnameinfo(found->ai_addr, found->ai_addrlen, back, sizeof back, NULL, 0, 0) == 0);
        printf("%s is %s\n", arguments[i], back);
        struct hostent *host = gethostbyname(arguments[i]);
        CHECK(host && host->h_length == 4);
        CHECK(memcmp(host->h_addr_list[0], &((struct sockaddr_in *)found->ai_addr)->sin_addr, 4) == 0);
        freeaddrinfo(found);
    }
    puts("names: ok");
    return 0;
}
