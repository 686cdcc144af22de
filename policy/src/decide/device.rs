//! Row 14: the last check, when the device is made and the images are loaded.

use capgate_registry::combination::{CdHash, Sha256Digest};
use capgate_registry::profile::{Answers, Image};

use super::{Grant, Refusal};
use crate::reason::Reason;

/// A non-system image that may touch Metal, the program itself and capgate's own library apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedImage {
    /// File name.
    pub name: String,
    /// SHA-256 of its file, where it was computed.
    pub sha256: Option<Sha256Digest>,
    /// Its code directory hash, where it has one.
    pub cdhash: Option<CdHash>,
}

/// What is known once the device is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its own answers, before anything is replaced.
    pub answers: Answers,
    /// The loaded images that may touch Metal.
    pub images: Vec<LoadedImage>,
}

impl Grant {
    /// Row 14: the grant still stands for this device, or why the process stays stock.
    pub fn at_device(&self, device: &Device) -> Result<(), Refusal> {
        // Without a list nothing can be compared; that must have been said aloud when it was published.
        if self.images.is_empty() && !self.images_may_be_unrecorded {
            let detail = "the profile lists no image that may touch Metal";
            return Err(self.withhold(Reason::ImageUnrecorded, detail));
        }
        if !self.images.is_empty() {
            self.check_images(&device.images)?;
        }
        if device.answers != self.stock {
            let detail = format!("tested against {}, this is {}", shown(self.stock), shown(device.answers));
            return Err(self.withhold(Reason::DeviceDiffers, detail));
        }
        Ok(())
    }

    /// The refusal for a device that cannot be asked, or whose answers cannot be changed as a whole.
    pub fn without_device(&self, why: impl Into<Box<str>>) -> Refusal {
        self.withhold(Reason::DeviceDiffers, why)
    }

    /// The refusal where no library is inserted, so that nothing would carry this grant out.
    pub fn not_inserted(&self, why: impl Into<Box<str>>) -> Refusal {
        self.withhold(Reason::NotInserted, why)
    }

    fn check_images(&self, loaded: &[LoadedImage]) -> Result<(), Refusal> {
        let listed =
            |image: &LoadedImage| self.images.iter().filter(|listed| listed.name == image.name).count();
        if let Some(image) = loaded.iter().find(|image| listed(image) == 0) {
            return Err(self.withhold(Reason::ImageUnlisted, format!("`{}` is not listed", image.name)));
        }
        let tested = |image: &LoadedImage| self.images.iter().any(|listed| is_same(listed, image));
        match loaded.iter().find(|image| !tested(image)) {
            None => Ok(()),
            Some(image) => {
                let detail = format!("`{}` is not the one that was tested", image.name);
                Err(self.withhold(Reason::ImageDiffers, detail))
            }
        }
    }

    /// The refusal that takes this grant back.
    pub(super) fn withhold(&self, reason: Reason, detail: impl Into<Box<str>>) -> Refusal {
        Refusal {
            profile: Some(self.profile.clone()),
            key: Some(self.key),
            withheld: Some(self.values),
            ..Refusal::new(reason, detail)
        }
    }
}

/// Every digest that both sides know must agree, and they must know one.
fn is_same(listed: &Image, loaded: &LoadedImage) -> bool {
    let sha256 = listed.sha256.zip(loaded.sha256).map(|(a, b)| a == b);
    let cdhash = listed.cdhash.zip(loaded.cdhash).map(|(a, b)| a == b);
    let agreed = [sha256, cdhash];
    listed.name == loaded.name && agreed.contains(&Some(true)) && !agreed.contains(&Some(false))
}

fn shown(answers: Answers) -> String {
    let family = answers.apple_family.map_or_else(|| "none".to_owned(), |family| family.to_string());
    format!("`{family}/{}`", answers.max_threadgroup_memory)
}
