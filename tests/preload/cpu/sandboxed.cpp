// A program that forbids mprotect after its first product, as some sandboxes do, and ends by return.
#include "blas.h"

#include <cstddef>
#include <cstdio>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

extern "C" CblasGemm cblas_sgemm;

static float multiply()
{
	const float two = 2, three = 3;
	float six = 0;
	cblas_sgemm(columnMajor, noTrans, noTrans, 1, 1, 1, 1, &two, 1, &three, 1, 0, &six, 1);
	return six;
}

int main()
{
	std::printf("%g\n", static_cast<double>(multiply()));
	std::fflush(stdout);
	sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
	                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
	                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	const sock_fprog program = {4, filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		std::perror("seccomp");
	std::printf("%g\n", static_cast<double>(multiply()));
	return 0;
}
