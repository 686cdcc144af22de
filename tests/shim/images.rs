//! Row 14: the images that may touch Metal, known by the cdhash of what is mapped.

use std::fs;

use capgate_registry::combination::CdHash;

use crate::built::built;
use crate::guest::{Guest, Plan};
use crate::machofile::{Image, linking_metal};

const DEVICE: &str = "AppleParavirtDevice";

/// A profile with these images, and no word about unrecorded ones.
fn listing(images: &[(&str, CdHash)]) -> Plan {
    let mut list = String::new();
    for (name, cdhash) in images {
        list += &format!("[[workload.image]]\nname = \"{name}\"\ncdhash = \"{cdhash}\"\n\n");
    }
    Plan::default()
        .edit_profile(", \"images-unrecorded\"]", "]")
        .edit_profile("[[override]]", &format!("{list}[[override]]"))
}

/// The loader's list: each image with its path, and the library that must be open for it to be there.
fn load(guest: &Guest, images: &[(&str, &Image, &str)]) {
    let mut lines = String::new();
    for (at, (path, image, library)) in images.iter().enumerate() {
        let file = guest.folder.join(format!("standin/image-{at}"));
        fs::write(&file, image.bytes()).unwrap();
        lines += &format!("{path} {} {library}\n", file.display());
    }
    guest.answer("images", &lines);
}

#[test]
fn the_listed_images_are_granted() {
    let (ggml, other) = (linking_metal("ggml"), linking_metal("other"));
    let plan = listing(&[("libggml-metal.dylib", ggml.cdhash()), ("libother.dylib", other.cdhash())]);
    let guest = plan.make();
    load(&guest, &[("/opt/llama/libggml-metal.dylib", &ggml, ""), ("/opt/other/libother.dylib", &other, "")]);
    guest.ask(&[DEVICE]).is_granted(DEVICE);
}

#[test]
fn the_system_the_program_and_what_cannot_touch_metal_need_no_list() {
    let ggml = linking_metal("ggml");
    let guest = listing(&[("libggml-metal.dylib", ggml.cdhash())]).make();
    load(
        &guest,
        &[
            ("/usr/lib/libMTLThing.dylib", &linking_metal("system"), ""),
            ("/System/Library/Frameworks/MetalKit.framework/MetalKit", &linking_metal("kit"), ""),
            ("/opt/llama/llama-bench", &Image::program("llama-bench"), ""),
            ("/opt/llama/libllama.dylib", &Image::new("llama"), ""),
            ("/opt/llama/libggml-metal.dylib", &ggml, ""),
        ],
    );
    guest.ask(&[DEVICE]).is_granted(DEVICE);
}

#[test]
fn attack_a_system_path_must_be_one() {
    let guest = listing(&[("libggml-metal.dylib", linking_metal("ggml").cdhash())]).make();
    load(&guest, &[("/usr/library/libevil.dylib", &linking_metal("evil"), "")]);
    guest.ask(&[DEVICE]).is_stock(DEVICE, "image-unlisted");
}

#[test]
fn what_comes_later_is_held_against_the_list_whatever_it_links() {
    // Not there at the start: it is mapped once Metal is open, which the program does only later.
    let late = Image::new("late");
    let metal = built().metal.display().to_string();
    for (listed, reason) in [(late.cdhash(), None), (Image::new("other").cdhash(), Some("image-differs"))] {
        let guest = listing(&[("libggml-metal.so", listed)]).make();
        // The library itself opens Metal on a grant, so everything behind it is late.
        load(&guest, &[("/opt/llama/libggml-metal.so", &late, &metal)]);
        let ran = guest.finish(guest.command(&built().ask_late).arg(DEVICE));
        match reason {
            None => ran.is_granted(DEVICE),
            Some(reason) => ran.is_stock(DEVICE, reason),
        }
    }
}

#[test]
fn an_image_that_cannot_be_understood_is_on_no_list() {
    let ggml = linking_metal("ggml");
    let guest = listing(&[("libggml-metal.dylib", ggml.cdhash())]).make();
    let file = guest.folder.join("standin/image");
    for damage in [0usize, 4, 16, 20, 36] {
        let mut bytes = ggml.bytes();
        bytes[damage] ^= 0xff;
        // The header stays one page long, whatever it claims.
        fs::write(&file, bytes).unwrap();
        guest.answer("images", &format!("/opt/llama/libggml-metal.dylib {}\n", file.display()));
        let ran = guest.ask(&[DEVICE]);
        assert_eq!(ran.status, Some(0), "{damage}: {ran:?}");
        if damage != 4 {
            ran.is_stock(DEVICE, "image-differs");
        }
    }
}

#[test]
fn attack_an_image_that_goes_while_images_are_compared_is_on_no_list_and_no_fault() {
    let ggml = linking_metal("ggml");
    let guest = listing(&[("libggml-metal.dylib", ggml.cdhash())]).make();
    guest.answer("images", "/opt/llama/libggml-metal.dylib gone\n");
    guest.ask(&[DEVICE]).is_stock(DEVICE, "image-differs");
}
