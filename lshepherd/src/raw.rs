//! System calls without the C library. A child that shares the memory of this process shares its `errno`, too, so the calls
//! of the child must not write it.

use std::arch::asm;
use std::ffi::{c_int, c_void};

use nix::libc::{self, c_long};

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

/// The life of a process on its own stack. It ends the process, and does not return.
pub type Life = extern "C" fn(*mut c_void) -> c_int;

/// Starts a process as `clone3(2)` does, which the C library has no function for. Returns its number, or the kernel's
/// negative error.
///
/// # Safety
/// The arguments name a stack that only the process uses, whose size is a multiple of 16, and `argument` is valid for
/// `life`; both for as long as the process shares this memory.
#[cfg(target_arch = "x86_64")]
pub unsafe fn clone3(arguments: &libc::clone_args, life: Life, argument: *mut c_void) -> isize {
    let result;
    // SAFETY: the caller guarantees it. The new process begins behind the call with an empty stack and with the other
    // registers of this one; it leaves this code for `life` and does not come back.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r12", "call r13", "ud2", "2:",
            inlateout("rax") libc::SYS_clone3 as isize => result, in("rdi") arguments,
            in("rsi") size_of::<libc::clone_args>(), in("r12") argument, in("r13") life, lateout("rcx") _,
            lateout("r11") _);
    }
    result
}

/// Starts a process as `clone3(2)` does, which the C library has no function for. Returns its number, or the kernel's
/// negative error.
///
/// # Safety
/// The arguments name a stack that only the process uses, whose size is a multiple of 16, and `argument` is valid for
/// `life`; both for as long as the process shares this memory.
#[cfg(target_arch = "aarch64")]
pub unsafe fn clone3(arguments: &libc::clone_args, life: Life, argument: *mut c_void) -> isize {
    let result;
    // SAFETY: the caller guarantees it. The new process begins behind the call with an empty stack and with the other
    // registers of this one; it leaves this code for `life` and does not come back.
    unsafe {
        asm!("svc 0", "cbnz x0, 2f", "mov x29, xzr", "mov x0, x20", "blr x21", "brk 1", "2:",
            inlateout("x0") arguments as *const libc::clone_args as isize => result,
            in("x1") size_of::<libc::clone_args>(), in("x8") libc::SYS_clone3, in("x20") argument, in("x21") life);
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("lshepherd knows the system calls of x86_64 and aarch64 only");
