/* Compares all views of the interfaces of a host: getifaddrs, ioctl, netlink, names and files. Then
 * connects to itself by its own name. Prints the address of eth0. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%d: %s does not hold (errno %d)\n", __LINE__, #condition, errno); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

static struct in_addr v4(const void *address) { return ((const struct sockaddr_in *)address)->sin_addr; }

static struct in_addr by_getifaddrs(void) {
    struct in_addr found = {0};
    struct ifaddrs *list;
    int count = 0;
    CHECK(getifaddrs(&list) == 0);
    for (struct ifaddrs *one = list; one != NULL; one = one->ifa_next, count++)
        if (strcmp(one->ifa_name, "eth0") == 0) found = v4(one->ifa_addr);
    freeifaddrs(list);
    CHECK(count == 2);
    return found;
}

static void compare_ioctl(struct in_addr own) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct ifconf list = {0};
    CHECK(ioctl(fd, SIOCGIFCONF, &list) == 0 && list.ifc_len == 2 * sizeof(struct ifreq));
    struct ifreq both[2], about = {.ifr_name = "eth0"};
    list.ifc_req = both;
    CHECK(ioctl(fd, SIOCGIFCONF, &list) == 0 && list.ifc_len == sizeof both);
    CHECK(strcmp(both[0].ifr_name, "lo") == 0 && strcmp(both[1].ifr_name, "eth0") == 0);
    CHECK(v4(&both[0].ifr_addr).s_addr == htonl(INADDR_LOOPBACK) && v4(&both[1].ifr_addr).s_addr == own.s_addr);
    CHECK(ioctl(fd, SIOCGIFADDR, &about) == 0 && v4(&about.ifr_addr).s_addr == own.s_addr);
    CHECK(ioctl(fd, SIOCGIFNETMASK, &about) == 0 && v4(&about.ifr_netmask).s_addr == inet_addr("255.255.0.0"));
    CHECK(ioctl(fd, SIOCGIFBRDADDR, &about) == 0 && v4(&about.ifr_broadaddr).s_addr == (own.s_addr | inet_addr("0.0.255.255")));
    CHECK(ioctl(fd, SIOCGIFFLAGS, &about) == 0 && (about.ifr_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP);
    CHECK(ioctl(fd, SIOCGIFMTU, &about) == 0 && about.ifr_mtu == 1500);
    CHECK(ioctl(fd, SIOCGIFHWADDR, &about) == 0 && memcmp(about.ifr_hwaddr.sa_data + 2, &own, 4) == 0);
    CHECK(ioctl(fd, SIOCGIFINDEX, &about) == 0 && about.ifr_ifindex == 2);
    memset(about.ifr_name, 0, sizeof about.ifr_name);
    CHECK(ioctl(fd, SIOCGIFNAME, &about) == 0 && strcmp(about.ifr_name, "eth0") == 0);
    CHECK(ioctl(fd, SIOCSIFFLAGS, &about) == -1 && errno == EPERM);
    strcpy(about.ifr_name, "eth7");
    CHECK(ioctl(fd, SIOCGIFADDR, &about) == -1 && errno == ENODEV);
    CHECK(ioctl(-1, SIOCGIFADDR, &about) == -1 && errno == EBADF);
    close(fd);
}

static void compare_names(void) {
    char name[IF_NAMESIZE];
    struct if_nameindex *list = if_nameindex();
    CHECK(list != NULL && list[1].if_index == 2 && strcmp(list[1].if_name, "eth0") == 0 && list[2].if_index == 0);
    if_freenameindex(list);
    CHECK(if_nametoindex("eth0") == 2 && if_nametoindex("eth7") == 0);
    CHECK(strcmp(if_indextoname(1, name), "lo") == 0 && if_indextoname(9, name) == NULL);
    CHECK(access("/sys/class/net/eth0/operstate", R_OK) == 0 && access("/sys/class/net/eth7", F_OK) != 0);
}

static void compare_netlink(struct in_addr own) {
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), ended = 0, found = 0;
    struct sockaddr_nl name = {.nl_family = AF_NETLINK, .nl_pid = 4711}, from;
    CHECK(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    struct {
        struct nlmsghdr head;
        struct ifaddrmsg body;
    } request = {{sizeof request, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {.ifa_family = AF_INET}};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    CHECK(sendto(fd, &request, sizeof request, 0, (struct sockaddr *)&kernel, sizeof kernel) == sizeof request);
    while (!ended) {
        char buffer[8192];
        struct iovec part = {buffer, sizeof buffer};
        struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1};
        ssize_t count = recvmsg(fd, &message, 0);
        CHECK(count > 0 && from.nl_family == AF_NETLINK && from.nl_pid == 0);
        for (struct nlmsghdr *one = (void *)buffer; NLMSG_OK(one, count); one = NLMSG_NEXT(one, count)) {
            CHECK(one->nlmsg_pid == 4711 && one->nlmsg_seq == 1);
            if (one->nlmsg_type == NLMSG_DONE) ended = 1;
            int len = IFA_PAYLOAD(one);
            if (one->nlmsg_type != RTM_NEWADDR) continue;
            for (struct rtattr *value = IFA_RTA(NLMSG_DATA(one)); RTA_OK(value, len); value = RTA_NEXT(value, len))
                found += value->rta_type == IFA_LOCAL && memcmp(RTA_DATA(value), &own, 4) == 0;
        }
    }
    CHECK(found == 1);
    close(fd);
}

static struct sockaddr_in name_of(int fd, int (*call)(int, struct sockaddr *, socklen_t *)) {
    struct sockaddr_in name;
    socklen_t len = sizeof name;
    CHECK(call(fd, (struct sockaddr *)&name, &len) == 0 && len == sizeof name);
    return name;
}

static void compare_sockets(struct in_addr own) {
    char host[256];
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    CHECK(gethostname(host, sizeof host) == 0 && getaddrinfo(host, NULL, &hints, &found) == 0);
    CHECK(v4(found->ai_addr).s_addr == own.s_addr);
    freeaddrinfo(found);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = own}, peer;
    socklen_t len = sizeof peer;
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(server, (struct sockaddr *)&at, sizeof at) == 0 && listen(server, 1) == 0);
    at = name_of(server, getsockname);
    CHECK(at.sin_addr.s_addr == own.s_addr && at.sin_port != 0);
    CHECK(connect(client, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(name_of(client, getpeername).sin_addr.s_addr == own.s_addr && name_of(client, getsockname).sin_addr.s_addr == own.s_addr);
    int accepted = accept(server, (struct sockaddr *)&peer, &len);
    CHECK(accepted >= 0 && peer.sin_addr.s_addr == own.s_addr && peer.sin_port == name_of(client, getsockname).sin_port);
    struct sockaddr_in other = {.sin_family = AF_INET, .sin_addr.s_addr = own.s_addr ^ htonl(3)};
    int foreign = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(foreign, (struct sockaddr *)&other, sizeof other) == -1 && errno == EADDRNOTAVAIL);
}

/* Datagrams are outside simulated time. */
static void compare_datagrams(struct in_addr own) {
    struct sockaddr_in at = {.sin_family = AF_INET}, from;
    socklen_t len = sizeof from;
    char byte;
    int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(bind(receiver, (struct sockaddr *)&at, sizeof at) == 0);
    at = name_of(receiver, getsockname);
    CHECK(at.sin_addr.s_addr == own.s_addr);
    CHECK(sendto(sender, "x", 1, 0, (struct sockaddr *)&at, sizeof at) == 1);
    CHECK(recvfrom(receiver, &byte, 1, 0, (struct sockaddr *)&from, &len) == 1 && from.sin_addr.s_addr == own.s_addr);
}

int main(int count, char **words) {
    struct in_addr own = by_getifaddrs();
    compare_ioctl(own);
    compare_names();
    compare_netlink(own);
    compare_sockets(own);
    if (count > 1 && strcmp(words[1], "wall") == 0) compare_datagrams(own);
    printf("%s\n", inet_ntoa(own));
    return 0;
}
