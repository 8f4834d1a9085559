package build

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confine bounds what this process may take, and takes from it the right to open a file, to talk to anybody, to start a
// program and to signal another process. What a kernel does not have, such as filters of system calls, is left out: then
// there still are the files in memory, the transport that refuses, and an environment without a path of programs.
func confine(memory int64, seconds uint64) {
	const files = 16
	for _, limit := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_DATA, uint64(memory)}, //nolint:gosec // it is positive
		{unix.RLIMIT_CPU, seconds}, {unix.RLIMIT_NOFILE, files}, {unix.RLIMIT_FSIZE, 0}, {unix.RLIMIT_CORE, 0},
	} {
		_ = unix.Setrlimit(limit.resource, &unix.Rlimit{Cur: limit.most, Max: limit.most}) // one that is lower already stays
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != nil {
		return
	}
	filter := systemCalls(uint32(unix.Getpid())) //nolint:gosec // a process id is positive
	if len(filter) == 0 {
		return
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // some two hundred
	// For all threads, of which there are some already.
	_, _, _ = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))) //nolint:gosec // the kernel reads a program at an address
}

// allowed are the system calls of Go's runtime, and reading and writing what is open. What is not here is refused with
// EPERM, which the runtime can live with.
var allowed = append([]uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_FCNTL,
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_MINCORE,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_FUTEX, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_MEMBARRIER, unix.SYS_GETTID, unix.SYS_GETPID,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_SETITIMER,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2, unix.SYS_GETRANDOM,
}, allowedHere...)

// Offsets in what a filter of system calls sees: struct seccomp_data, of a machine that is little-endian.
const (
	offsetCall     = 0
	offsetMachine  = 4
	offsetArgument = 16
)

// systemCalls is a filter of system calls for a process; empty for a machine that it is not made for.
func systemCalls(pid uint32) []unix.SockFilter {
	if machine == 0 {
		return nil
	}
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		anyOf  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
		allow  = unix.SECCOMP_RET_ALLOW
		refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		lacks  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		// otherABI is the first of the calls of another ABI (x32) of the same machine.
		otherABI = 0x40000000
	)
	filter := []unix.SockFilter{
		{Code: load, K: offsetMachine},
		{Code: equal, Jt: 1, K: machine},
		{Code: answer, K: refuse},
		{Code: load, K: offsetCall},
		{Code: least, Jf: 1, K: otherABI},
		{Code: answer, K: refuse},
		// A thread, and no process. The library of C falls back to clone where there is no clone3, whose flags no filter sees.
		{Code: equal, Jf: 1, K: unix.SYS_CLONE3},
		{Code: answer, K: lacks},
		{Code: equal, Jf: 4, K: unix.SYS_CLONE},
		{Code: load, K: offsetArgument},
		{Code: anyOf, Jf: 1, K: unix.CLONE_THREAD},
		{Code: answer, K: allow},
		{Code: answer, K: refuse},
		// Signals to itself: the runtime interrupts its threads.
		{Code: equal, Jf: 4, K: unix.SYS_TGKILL},
		{Code: load, K: offsetArgument},
		{Code: equal, Jf: 1, K: pid},
		{Code: answer, K: allow},
		{Code: answer, K: refuse},
	}
	for _, call := range allowed {
		filter = append(filter, unix.SockFilter{Code: equal, Jf: 1, K: call}, unix.SockFilter{Code: answer, K: allow})
	}
	return append(filter, unix.SockFilter{Code: answer, K: refuse})
}
