//! Files in which others' secrets lie: a provider's key, what signs to a sink, the URL of a database.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The longest file that is read for a secret, its end of line included.
pub const SECRET_FILE_BYTES_MAX: usize = 8 * 1024;

/// Why a file has no secret for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretFileFault {
    /// It cannot be read, or is no text.
    #[error("cannot be read")]
    Unreadable,
    /// It is no secret that anybody would have.
    #[error("is longer than {SECRET_FILE_BYTES_MAX} bytes")]
    TooLong,
}

/// Returns the text of a file that holds a secret, as it lies there.
///
/// # Errors
/// See [`SecretFileFault`]; of a file that is too long nothing is taken.
pub fn read(path: &Path) -> Result<String, SecretFileFault> {
    let mut bytes = Vec::new();
    // One byte more than there may be, so that a longer one is seen to be too long.
    let bounded = File::open(path).map(|file| file.take(SECRET_FILE_BYTES_MAX as u64 + 1));
    let read = bounded.and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|_| SecretFileFault::Unreadable)?;
    if bytes.len() > SECRET_FILE_BYTES_MAX {
        return Err(SecretFileFault::TooLong);
    }
    String::from_utf8(bytes).map_err(|_| SecretFileFault::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            super::read(&path)
        };
        assert_eq!(read(b"sesame\n"), Ok("sesame\n".to_owned()));
        let longest = vec![b'a'; SECRET_FILE_BYTES_MAX];
        assert_eq!(read(&longest).map(|text| text.len()), Ok(SECRET_FILE_BYTES_MAX));
        assert_eq!(read(&[&longest[..], b"\n"].concat()), Err(SecretFileFault::TooLong));
        // What is too long may be cut within a character.
        let wide = "\u{e9}".repeat(SECRET_FILE_BYTES_MAX);
        assert_eq!(read(wide.as_bytes()), Err(SecretFileFault::TooLong));
        assert_eq!(read(b"\xff"), Err(SecretFileFault::Unreadable));
        assert_eq!(super::read(&folder.path().join("none")), Err(SecretFileFault::Unreadable));
    }
}
