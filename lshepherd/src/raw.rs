//! System calls without the C library. A child that shares the memory of this process shares its `errno`, too, so the calls
//! of the child must not write it.

use std::arch::asm;

use nix::libc::c_long;

/// Makes a system call; returns the kernel's result, negative for errors.
///
/// # Safety
/// The arguments must be valid for the call, and pointers must be valid until it returns.
#[cfg(target_arch = "x86_64")]
pub unsafe fn call(number: c_long, [a, b, c, d, e]: [usize; 5]) -> isize {
    let result;
    // SAFETY: the caller guarantees it; the kernel changes no other registers.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Makes a system call; returns the kernel's result, negative for errors.
///
/// # Safety
/// The arguments must be valid for the call, and pointers must be valid until it returns.
#[cfg(target_arch = "aarch64")]
pub unsafe fn call(number: c_long, [a, b, c, d, e]: [usize; 5]) -> isize {
    let result;
    // SAFETY: the caller guarantees it; the kernel changes no other registers.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, options(nostack));
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("lshepherd knows the system calls of x86_64 and aarch64 only");
