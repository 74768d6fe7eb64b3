//! The two files of a run: readable after every write, whenever the process is killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::nccl_json;
use crate::error::{Error, Result};

fn cannot(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File { action, path: path.to_owned(), source }
}

/// What the JSON needs of a file; a test has one that is full.
pub(super) trait Disk {
    /// Writes all of it, or some and an error.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts or extends.
    fn set_len(&self, length: u64) -> io::Result<()>;
}

impl Disk for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        Self::set_len(self, length)
    }
}

/// nccl-tests' JSON: complete after every write.
pub(super) struct JsonFile<D = File> {
    file: D,
    path: PathBuf,
    /// Where the next chunk goes, and the tail starts.
    end: u64,
    tail: String,
    length: u64,
    chunks: u64,
}

impl JsonFile {
    /// Makes the file; until the run starts it says that the run did not.
    pub(super) fn create(asked: &Path) -> Result<Self> {
        let (file, path) = create(asked, false)?;
        let mut json = Self { file, path, end: 0, tail: String::new(), length: 0, chunks: 0 };
        json.put("", nccl_json::stub(&["the run did not start".to_owned()])?)?;
        Ok(json)
    }
}

impl<D: Disk> JsonFile<D> {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the head has not been written yet.
    pub(super) fn is_stub(&self) -> bool {
        self.chunks == 0
    }

    /// Rows so far: chunks behind the first, which is the head.
    pub(super) fn rows(&self) -> u64 {
        self.chunks.saturating_sub(1)
    }

    /// Puts a chunk and the new tail over the old tail in one write. A tail that is shorter than the old one is
    /// filled up with blanks, so that no second call is needed. If it fails, the old tail comes back.
    pub(super) fn put(&mut self, chunk: &str, tail: String) -> Result<()> {
        let mut bytes = format!("{chunk}{tail}").into_bytes();
        let before = usize::try_from(self.length - self.end).unwrap_or(0);
        bytes.resize(bytes.len().max(before), b' ');
        if let Err(source) = self.file.write_all_at(&bytes, self.end) {
            let restored = self.file.write_all_at(self.tail.as_bytes(), self.end);
            let _ = restored.and_then(|()| self.file.set_len(self.end + self.tail.len() as u64));
            return Err(cannot("write", &self.path, source));
        }
        self.length = self.end + bytes.len() as u64;
        self.end += chunk.len() as u64;
        self.chunks += u64::from(!chunk.is_empty());
        self.tail = tail;
        Ok(())
    }
}

/// JSON Lines, appended.
pub(super) struct RecordFile {
    file: File,
    path: PathBuf,
}

impl RecordFile {
    /// Makes the file.
    pub(super) fn create(asked: &Path) -> Result<Self> {
        let (file, path) = create(asked, true)?;
        Ok(Self { file, path })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A second handle, for another thread.
    pub(super) fn spare(&self) -> Option<File> {
        self.file.try_clone().ok()
    }

    /// Adds a line, newline included.
    pub(super) fn append(&mut self, line: &str) -> Result<()> {
        self.file.write_all(line.as_bytes()).map_err(|source| cannot("write", &self.path, source))
    }
}

/// Makes a new file; one that is there is kept, and the new one is called FILE.0, FILE.1, … A device or pipe has
/// nothing to keep; a folder is refused by the system.
fn create(asked: &Path, append: bool) -> Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    options.write(true).append(append);
    let special = fs::metadata(asked).is_ok_and(|known| !known.is_file());
    let mut path = asked.to_owned();
    let mut copies = 0_u64;
    loop {
        match options.clone().create_new(!special).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = format!("{}.{copies}", asked.display()).into();
                copies += 1;
            }
            Err(source) => return Err(cannot("create", &path, source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file on a disk of 32 bytes.
    struct Full(File);

    impl Disk for Full {
        fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            let fits = bytes.len().min(32_usize.saturating_sub(offset as usize));
            FileExt::write_all_at(&self.0, &bytes[..fits], offset)?;
            if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn set_len(&self, length: u64) -> io::Result<()> {
            self.0.set_len(length)
        }
    }

    #[test]
    fn a_full_disk_leaves_the_json_as_it_was() {
        let path = tempfile::tempdir().unwrap().keep().join("a.json");
        let file = Full(File::create_new(&path).unwrap());
        let mut json = JsonFile { file, path, end: 0, tail: String::new(), length: 0, chunks: 0 };
        json.put("[10000001", "]".to_owned()).unwrap();
        json.put(",10000002", "]".to_owned()).unwrap();
        let error = json.put(",10000003,10000004", "]".to_owned()).unwrap_err();
        assert_eq!(error.exit().code(), 6);
        let text = fs::read_to_string(&json.path).unwrap();
        assert_eq!(text, "[10000001,10000002]");
        fs::remove_dir_all(json.path.parent().unwrap()).unwrap();
    }
}
