/* Frequent counter reads are rewritten. Only rax, rdx (and rcx of rdtscp) may change, in
 * any surrounding code. */
#include "check.h"
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#define ROUNDS 2000

/* All registers that the read must not change, including flags, vectors and the red zone. */
static int keeps_everything(void) {
    uint64_t wrong;
    __asm__ volatile(
        "mov $0x1111, %%rbx\n mov $0x2222, %%rcx\n mov $0x3333, %%rsi\n mov $0x4444, %%rdi\n"
        "mov $0x5555, %%r8\n mov $0x6666, %%r9\n mov $0x7777, %%r10\n mov $0x8888, %%r11\n"
        "mov $0x9999, %%r12\n mov $0xaaaa, %%r13\n mov $0xbbbb, %%r14\n mov $0xcccc, %%r15\n"
        "movq %%rbx, %%xmm0\n movq %%rcx, %%xmm7\n movq %%r15, %%xmm15\n"
        "movq $0x5a5a, -8(%%rsp)\n movq $0x7b7b, -128(%%rsp)\n"
        "stc\n"
        ".p2align 4\n"
        "rdtsc\n"
        "mov $0, %%eax\n" /* five bytes that move, and change no flag */
        "mov $0, %%edx\n"
        "adc $0, %%eax\n" /* result 1: the carry flag was kept */
        "dec %%eax\n or %%rdx, %%rax\n"
        "xor $0x1111, %%rbx\n or %%rbx, %%rax\n xor $0x2222, %%rcx\n or %%rcx, %%rax\n"
        "xor $0x3333, %%rsi\n or %%rsi, %%rax\n xor $0x4444, %%rdi\n or %%rdi, %%rax\n"
        "xor $0x5555, %%r8\n or %%r8, %%rax\n xor $0x6666, %%r9\n or %%r9, %%rax\n"
        "xor $0x7777, %%r10\n or %%r10, %%rax\n xor $0x8888, %%r11\n or %%r11, %%rax\n"
        "xor $0x9999, %%r12\n or %%r12, %%rax\n xor $0xaaaa, %%r13\n or %%r13, %%rax\n"
        "xor $0xbbbb, %%r14\n or %%r14, %%rax\n"
        "movq %%xmm0, %%rcx\n xor $0x1111, %%rcx\n or %%rcx, %%rax\n"
        "movq %%xmm7, %%rcx\n xor $0x2222, %%rcx\n or %%rcx, %%rax\n"
        "movq %%xmm15, %%rcx\n xor %%r15, %%rcx\n or %%rcx, %%rax\n"
        "xor $0xcccc, %%r15\n or %%r15, %%rax\n"
        "movq -8(%%rsp), %%rcx\n xor $0x5a5a, %%rcx\n or %%rcx, %%rax\n"
        "movq -128(%%rsp), %%rcx\n xor $0x7b7b, %%rcx\n or %%rcx, %%rax\n"
        : "=a"(wrong)
        :
        : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm7", "xmm15", "memory", "cc");
    return wrong == 0;
}

/* Upper halves of vectors, if the processor has them. */
__attribute__((target("avx"))) static int keeps_upper_halves(void) {
    static const uint64_t pattern[4] = {1, 2, 3, 4};
    uint64_t after[4];
    __asm__ volatile("vmovdqu %1, %%ymm5\n rdtsc\n shl $0x20, %%rdx\n or %%rdx, %%rax\n vmovdqu %%ymm5, %0\n"
                     : "=m"(after)
                     : "m"(pattern)
                     : "rax", "rdx", "xmm5", "cc");
    return memcmp(pattern, after, sizeof after) == 0;
}

/* A jump leads right behind the read, so the read must stay unchanged. */
static uint64_t joined(int skip) {
    uint64_t low = 42;
    __asm__ volatile("test %1, %1\n jne 1f\n rdtsc\n 1: add $1, %%eax\n nop\n nop\n nop\n" : "+a"(low) : "r"(skip) : "rdx", "cc");
    return low;
}

static uint64_t with_processor(uint32_t *processor) {
    uint64_t low, high;
    __asm__ volatile("rdtscp\n shl $0x20, %%rdx\n" : "=a"(low), "=d"(high), "=c"(*processor));
    return low | high;
}

static volatile int alarms;
static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}

int main(void) {
    uint32_t processor = 0;
    uint64_t last = 0;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(keeps_everything());
        if (__builtin_cpu_supports("avx")) CHECK(keeps_upper_halves());
        CHECK(joined(1) == 43);
        joined(0);
        uint64_t now = with_processor(&processor);
        CHECK(now >= last);
        CHECK(!is_simulated() || processor == 0);
        last = now;
        if (i % 100 == 0) usleep(1); /* places are rewritten between turns */
    }
    /* An alarm gets through a loop that only reads the counter. */
    signal(SIGALRM, on_alarm);
    struct itimerval soon = {.it_value = {.tv_usec = 2000}};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    uint64_t reads = 0;
    while (!alarms) {
        with_processor(&processor);
        reads++;
    }
    CHECK(alarms == 1 && reads > 0);
    puts("rewritten: ok");
    return 0;
}
