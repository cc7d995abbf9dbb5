//! The disk as SQLite sees it. All unsafe code of the workspace is in this file.
//!
//! SQLite owns the memory of a file (`Opened`), hands it to the methods of its table, and calls `close`
//! once for each `open` that went well. A `sqlite3_vfs`, its name and its image are leaked, so that
//! they outlive every connection. One connection has a database open at a time, so that the locks have
//! nothing to do; what connections would share is the memory of the connection itself.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::ffi;

use crate::image::{Failure, Image};
use crate::lock;

/// The longest path.
const MAX_PATH: c_int = 1024;

/// A file as SQLite holds it: its own part first, then ours.
#[repr(C)]
struct Opened {
    base: ffi::sqlite3_file,
    /// From `Box::into_raw`; null once it is closed.
    file: *mut Handle,
}

struct Handle {
    image: Arc<Mutex<Image>>,
    name: String,
    /// Whether to remove it when it is closed.
    passing: bool,
    /// Whether a sync makes its name safe too, as the VFS of a Unix does for journals and logs.
    names: bool,
    /// The memory that connections share, in regions, each from `Box::into_raw`.
    shared: Vec<*mut [u64]>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        for region in self.shared.drain(..) {
            // SAFETY: each is from `Box::into_raw` and given back here alone; SQLite has let go of it.
            drop(unsafe { Box::from_raw(region) });
        }
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(set_lock),
    xUnlock: Some(set_lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Makes an image known to SQLite, for as long as the process lives, and answers its name.
pub(crate) fn register(image: Arc<Mutex<Image>>) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let text = format!("faulty-disk-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let name = CString::new(text.clone()).expect("no zero in the name");
    let vfs = ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<Opened>() as c_int,
        mxPathname: MAX_PATH,
        pNext: ptr::null_mut(),
        zName: name.into_raw(),
        pAppData: Arc::into_raw(image).cast_mut().cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: None,
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    };
    // SAFETY: the structure is whole, as version 2 asks for, and is leaked with all it points to.
    let registered = unsafe { ffi::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 0) };
    assert_eq!(registered, ffi::SQLITE_OK, "SQLite takes no other disk");
    text
}

/// # Safety
/// `vfs` must be one that [`register`] has made.
unsafe fn image_of<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a Mutex<Image> {
    // SAFETY: the pointer is from `Arc::into_raw` and never given back.
    unsafe { &*(*vfs).pAppData.cast::<Mutex<Image>>() }
}

/// # Safety
/// `text` must be null or end in a zero.
unsafe fn text_of(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as promised by the caller.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// # Safety
/// `file` must have been opened by [`open`] and not closed since.
unsafe fn handle<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Handle {
    // SAFETY: it is the first field of an `Opened`, and SQLite calls one method of a file at a time.
    unsafe { &mut *(*file.cast::<Opened>()).file }
}

/// What SQLite is answered: `broken` where the disk failed.
fn code(done: Result<(), Failure>, broken: c_int) -> c_int {
    match done {
        Ok(()) => ffi::SQLITE_OK,
        Err(Failure::Full) => ffi::SQLITE_FULL,
        Err(Failure::ReadOnly) => ffi::SQLITE_READONLY,
        Err(Failure::Broken | Failure::Missing) => broken,
    }
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes what this module gave it, a name that ends in two zeros, and room for an
    // `Opened`, which is whole before anything else is done with it.
    unsafe {
        ptr::write(
            file.cast::<Opened>(),
            Opened { base: ffi::sqlite3_file { pMethods: ptr::null() }, file: ptr::null_mut() },
        );
        let image = image_of(vfs);
        let name = text_of(name).unwrap_or_else(|| "a file without a name".to_owned());
        let create = flags & ffi::SQLITE_OPEN_CREATE != 0;
        if let Err(failure) = lock(image).open(&name, create) {
            return code(Err(failure), ffi::SQLITE_CANTOPEN);
        }
        Arc::increment_strong_count(image);
        let handle = Handle {
            image: Arc::from_raw(image),
            name,
            passing: flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0,
            names: flags & (ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL) != 0,
            shared: Vec::new(),
        };
        (*file.cast::<Opened>()).file = Box::into_raw(Box::new(handle));
        (*file).pMethods = &raw const METHODS;
        if !out_flags.is_null() {
            let write = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
            let read_only = lock(image).is_read_only();
            *out_flags = if read_only { flags & !write | ffi::SQLITE_OPEN_READONLY } else { flags };
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes once what `open` made, and uses it no more.
    let handle = unsafe { Box::from_raw((*file.cast::<Opened>()).file) };
    let mut image = lock(&handle.image);
    image.close(&handle.name);
    if handle.passing {
        return code(image.remove(&handle.name), ffi::SQLITE_IOERR_DELETE);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    len: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite passes an open file and room for `len` bytes, which is made whole first.
    let (handle, bytes) = unsafe {
        ptr::write_bytes(into.cast::<u8>(), 0, len as usize);
        (handle(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), len as usize))
    };
    match lock(&handle.image).read(&handle.name, offset as usize, bytes) {
        Ok(read) if read == bytes.len() => ffi::SQLITE_OK,
        Ok(_) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(_) => ffi::SQLITE_IOERR_READ,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    len: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite passes an open file and `len` bytes.
    let (handle, bytes) =
        unsafe { (handle(file), std::slice::from_raw_parts(from.cast::<u8>(), len as usize)) };
    let done = lock(&handle.image).write(&handle.name, offset as usize, bytes);
    code(done, ffi::SQLITE_IOERR_WRITE)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: i64) -> c_int {
    // SAFETY: SQLite passes an open file.
    let handle = unsafe { handle(file) };
    code(lock(&handle.image).truncate(&handle.name, len as usize), ffi::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    let handle = unsafe { handle(file) };
    let mut image = lock(&handle.image);
    let synced = image.sync(&handle.name);
    let named = if handle.names { synced.and_then(|()| image.sync_folder()) } else { synced };
    code(named, ffi::SQLITE_IOERR_FSYNC)
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: SQLite passes an open file and room for the answer.
    unsafe {
        let handle = handle(file);
        *size = lock(&handle.image).len_of(&handle.name).unwrap_or_default() as i64;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn set_lock(_file: *mut ffi::sqlite3_file, _level: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut ffi::sqlite3_file, held: *mut c_int) -> c_int {
    // SAFETY: SQLite passes room for the answer.
    unsafe { *held = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    4096
}

/// As the VFS of a Unix: a write changes no bytes but its own, also when the power goes.
unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes an open file and room for the answer.
    let handle = unsafe { handle(file) };
    let region = region as usize;
    while extend != 0 && handle.shared.len() <= region {
        handle.shared.push(Box::into_raw(vec![0; size as usize / 8].into_boxed_slice()));
    }
    let start = handle.shared.get(region).map_or(ptr::null_mut(), |words| words.cast());
    // SAFETY: as above.
    unsafe { *out = start };
    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_lock(_: *mut ffi::sqlite3_file, _: c_int, _: c_int, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_barrier(_: *mut ffi::sqlite3_file) {}

/// The regions are freed with the file: no other process shares them.
unsafe extern "C" fn shm_unmap(_: *mut ffi::sqlite3_file, _remove: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    // SAFETY: SQLite passes what this module gave it, and a name.
    let (image, name) = unsafe { (image_of(vfs), text_of(name).unwrap_or_default()) };
    let mut image = lock(image);
    match image.remove(&name) {
        Err(Failure::Missing) => ffi::SQLITE_IOERR_DELETE_NOENT,
        Ok(()) if sync_folder != 0 => code(image.sync_folder(), ffi::SQLITE_IOERR_DIR_FSYNC),
        done => code(done, ffi::SQLITE_IOERR_DELETE),
    }
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _flags: c_int,
    there: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes what this module gave it, a name, and room for the answer.
    unsafe {
        let name = text_of(name).unwrap_or_default();
        match lock(image_of(vfs)).exists(&name) {
            Ok(exists) => *there = c_int::from(exists),
            Err(_) => return ffi::SQLITE_IOERR_ACCESS,
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a name and `room` bytes for the answer, with its zero.
    unsafe {
        let bytes = CStr::from_ptr(name).to_bytes_with_nul();
        if bytes.len() > room as usize {
            return ffi::SQLITE_CANTOPEN;
        }
        ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len());
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn randomness(vfs: *mut ffi::sqlite3_vfs, len: c_int, out: *mut c_char) -> c_int {
    // SAFETY: SQLite passes what this module gave it, and room for `len` bytes.
    unsafe {
        ptr::write_bytes(out, 0, len as usize);
        lock(image_of(vfs)).fill(std::slice::from_raw_parts_mut(out.cast(), len as usize));
    }
    len
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, micros: c_int) -> c_int {
    micros
}

unsafe extern "C" fn current_time(_: *mut ffi::sqlite3_vfs, days: *mut f64) -> c_int {
    // SAFETY: SQLite passes room for the answer.
    unsafe { *days = 0.0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn current_time_int64(_: *mut ffi::sqlite3_vfs, millis: *mut i64) -> c_int {
    // SAFETY: SQLite passes room for the answer.
    unsafe { *millis = 0 };
    ffi::SQLITE_OK
}
