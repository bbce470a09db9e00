package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// ownCPU is the CPU time that this process has used, garbage collection included.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	// It fails for an unknown target only.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// clockTick is the unit of times in /proc, on every architecture of Linux.
const clockTick = 10 * time.Millisecond

// cpuOf is the CPU time (utime + stime) that process pid has used.
func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name stands in parentheses and may hold spaces: fields are counted
	// behind it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, field := range fields[11:13] {
		count, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += count
	}
	return time.Duration(ticks) * clockTick, nil
}
