/* A server and its client. Each asks for MPTCP if its word says so. The server echoes one message.
 * The words: [mptcp|tcp] [HOST]. */
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MPTCP 262
#define PORT 9444

int main(int count, char **words) {
    int fd = socket(AF_INET, SOCK_STREAM, strcmp(words[1], "mptcp") == 0 ? MPTCP : IPPROTO_TCP);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    char text[6] = "hello";
    if (fd < 0) {
        perror("socket");
        return 1;
    }
    if (count > 2) {
        struct hostent *host = gethostbyname(words[2]);
        memcpy(&at.sin_addr, host->h_addr_list[0], sizeof at.sin_addr);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0 || write(fd, text, 5) != 5) {
            perror("connect");
            return 1;
        }
        memset(text, 0, sizeof text);
        return read(fd, text, 5) == 5 ? printf("%s\n", text), 0 : 1;
    }
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 1) < 0) {
        perror("listen");
        return 1;
    }
    int peer = accept(fd, NULL, NULL);
    return read(peer, text, 5) == 5 && write(peer, text, 5) == 5 ? 0 : 1;
}
