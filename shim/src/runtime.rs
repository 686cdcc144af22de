//! The Objective-C runtime, each function found by its name: a process without it has no Metal either.
#![allow(unsafe_code, reason = "these are C functions; each block says why it is sound")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use capgate_guest::system::symbol;

/// A class, an object, a selector, a method or an implementation, as the runtime hands them out.
pub type Pointer = *mut c_void;

/// The functions that are needed. Each has the type that `objc/runtime.h` gives it, in Apple's runtime and in GNU's.
#[derive(Clone, Copy)]
pub struct Runtime {
    get_class: unsafe extern "C" fn(*const c_char) -> Pointer,
    class_of: unsafe extern "C" fn(Pointer) -> Pointer,
    class_name: unsafe extern "C" fn(Pointer) -> *const c_char,
    selector: unsafe extern "C" fn(*const c_char) -> Pointer,
    instance_method: unsafe extern "C" fn(Pointer, Pointer) -> Pointer,
    superclass: unsafe extern "C" fn(Pointer) -> Pointer,
    implementation: unsafe extern "C" fn(Pointer) -> Pointer,
    set_implementation: unsafe extern "C" fn(Pointer, Pointer) -> Pointer,
    encoding: unsafe extern "C" fn(Pointer) -> *const c_char,
    add_method: unsafe extern "C" fn(Pointer, Pointer, Pointer, *const c_char) -> u8,
    dispatch: unsafe extern "C" fn(Pointer, Pointer) -> Pointer,
}

macro_rules! found {
    // SAFETY: the fields' types are those of the runtime's headers.
    ($name:literal) => {
        unsafe { std::mem::transmute::<*mut c_void, _>(symbol($name)?.as_ptr()) }
    };
}

impl Runtime {
    /// Finds every function, or there is no runtime.
    #[allow(clippy::missing_transmute_annotations, reason = "the fields say the types")]
    pub fn find() -> Option<Self> {
        Some(Self {
            get_class: found!(c"objc_getClass"),
            class_of: found!(c"object_getClass"),
            class_name: found!(c"class_getName"),
            selector: found!(c"sel_registerName"),
            instance_method: found!(c"class_getInstanceMethod"),
            superclass: found!(c"class_getSuperclass"),
            implementation: found!(c"method_getImplementation"),
            set_implementation: found!(c"method_setImplementation"),
            encoding: found!(c"method_getTypeEncoding"),
            add_method: found!(c"class_addMethod"),
            dispatch: found!(c"class_getMethodImplementation"),
        })
    }

    /// The class of that name.
    pub fn class(&self, name: &CStr) -> Option<Pointer> {
        // SAFETY: the name ends in a zero byte; the runtime answers nil for a name it does not know.
        some(unsafe { (self.get_class)(name.as_ptr()) })
    }

    /// The class of an object.
    ///
    /// # Safety
    /// `object` is nil or an object.
    pub unsafe fn class_of(&self, object: Pointer) -> Option<Pointer> {
        // SAFETY: as promised.
        some(unsafe { (self.class_of)(object) })
    }

    /// The name of a class, cut where it is absurdly long.
    pub fn name(&self, class: Pointer) -> String {
        // SAFETY: classes come from this runtime, and their names live as long as they do.
        let name = unsafe { (self.class_name)(class) };
        if name.is_null() {
            return "nil".to_owned();
        }
        // SAFETY: ended by a zero byte.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        name.chars().filter(|c| c.is_ascii_graphic()).take(100).collect()
    }

    /// The selector of that name.
    pub fn selector(&self, name: &CStr) -> Option<Pointer> {
        // SAFETY: the name ends in a zero byte, and the runtime copies it.
        some(unsafe { (self.selector)(name.as_ptr()) })
    }

    /// The method that an instance of `class` has, its own or inherited.
    pub fn method(&self, class: Pointer, selector: Pointer) -> Option<Pointer> {
        // SAFETY: both come from this runtime.
        some(unsafe { (self.instance_method)(class, selector) })
    }

    /// Tells whether `class` itself has `method`, found on it by `selector`, and does not inherit it: what its parent has
    /// is another one.
    pub fn owns(&self, class: Pointer, selector: Pointer, method: Pointer) -> bool {
        // SAFETY: the class comes from this runtime, which answers nil for a root class.
        let parent = some(unsafe { (self.superclass)(class) });
        parent.and_then(|parent| self.method(parent, selector)) != Some(method)
    }

    /// The implementation of a method.
    pub fn implementation(&self, method: Pointer) -> Option<Pointer> {
        // SAFETY: the method comes from this runtime.
        some(unsafe { (self.implementation)(method) })
    }

    /// The types of a method's result and arguments, without sizes: `B@:q`.
    pub fn types(&self, method: Pointer) -> String {
        // SAFETY: the method comes from this runtime; its encoding lives as long as it does.
        let encoding = unsafe { (self.encoding)(method) };
        if encoding.is_null() {
            return String::new();
        }
        // SAFETY: ended by a zero byte.
        let encoding = unsafe { CStr::from_ptr(encoding) }.to_string_lossy();
        encoding.chars().filter(|c| !c.is_ascii_digit()).take(100).collect()
    }

    /// Replaces the implementation of a method that the class owns.
    ///
    /// # Safety
    /// `new` is a function of the method's types.
    pub unsafe fn replace(&self, method: Pointer, new: Pointer) -> Option<Pointer> {
        // SAFETY: as promised.
        some(unsafe { (self.set_implementation)(method, new) })
    }

    /// Adds to `class` alone a method that it inherits so far, with the types of the inherited one.
    ///
    /// # Safety
    /// `new` is a function of the method's types.
    pub unsafe fn add(&self, class: Pointer, selector: Pointer, new: Pointer, inherited: Pointer) -> bool {
        // SAFETY: as promised; the encoding is the runtime's own.
        unsafe { (self.add_method)(class, selector, new, (self.encoding)(inherited)) != 0 }
    }

    /// What a message to an instance of `class` would run.
    pub fn dispatch(&self, class: Pointer, selector: Pointer) -> Option<Pointer> {
        // SAFETY: both come from this runtime.
        some(unsafe { (self.dispatch)(class, selector) })
    }
}

/// Loads Metal, whose classes are there only then. It stays loaded.
pub fn load_metal() -> bool {
    const METAL: &CStr = c"/System/Library/Frameworks/Metal.framework/Metal";
    const FLAGS: c_int = libc::RTLD_LAZY | libc::RTLD_GLOBAL;
    // SAFETY: loading Apple's own framework runs nothing but its own constructors.
    !unsafe { libc::dlopen(METAL.as_ptr(), FLAGS) }.is_null()
}

fn some(pointer: Pointer) -> Option<Pointer> {
    NonNull::new(pointer).map(NonNull::as_ptr)
}

/// No object.
pub const NIL: Pointer = ptr::null_mut();
