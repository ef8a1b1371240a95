//! The user data as a disk: a FAT volume `CIDATA` for cloud-init's data source NoCloud.
//!
//! FAT instead of ISO 9660, because a small crate can write it without an additional program.

use std::io::{self, Cursor, Write as _};

use fatfs::{FileSystem, FormatVolumeOptions, FsOptions, format_volume};

/// Space for the file system and for rounding of file sizes.
const SPARE: usize = 1 << 20;
const SECTOR: usize = 512;

/// Returns the content of the disk.
pub(crate) fn disk(machine: &str, instance: &str, user_data: &[u8]) -> io::Result<Vec<u8>> {
    let size = (SPARE + user_data.len() * 2).next_multiple_of(SECTOR);
    let mut bytes = Cursor::new(vec![0; size]);
    format_volume(&mut bytes, FormatVolumeOptions::new().volume_label(*b"CIDATA     "))?;
    {
        let volume = FileSystem::new(&mut bytes, FsOptions::new())?;
        let root = volume.root_dir();
        let meta_data = format!("instance-id: {instance}\nlocal-hostname: {machine}\n");
        for (name, content) in [("user-data", user_data), ("meta-data", meta_data.as_bytes())] {
            let mut file = root.create_file(name)?;
            file.write_all(content)?;
            file.flush()?;
        }
        drop(root);
        volume.unmount()?;
    }
    Ok(bytes.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use std::io::Read as _;

    /// Shows HST-25.
    #[rstest]
    #[case(0)]
    #[case(16)]
    #[case(64 << 10)]
    #[case(3 << 20)]
    fn the_seed_contains_the_user_data_and_meta_data(#[case] length: usize) {
        let user_data = vec![b'#'; length];
        let disk = disk("m-1", "i-1", &user_data).unwrap();
        let volume = FileSystem::new(Cursor::new(disk), FsOptions::new()).unwrap();
        assert_eq!(volume.volume_label_as_bytes(), b"CIDATA");
        let read = |name: &str| {
            let mut content = Vec::new();
            volume.root_dir().open_file(name).unwrap().read_to_end(&mut content).unwrap();
            content
        };
        assert_eq!(read("user-data"), user_data);
        assert_eq!(read("meta-data"), b"instance-id: i-1\nlocal-hostname: m-1\n");
    }
}
