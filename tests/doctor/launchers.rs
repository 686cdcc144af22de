//! Scripts, `env`, shells and the stub of a framework's Python.

use crate::found::{Files, Found, shown};
use crate::writer::{Image, METAL};

#[test]
fn a_script_is_its_interpreters_program() {
    let files = Files::new();
    let python = files.put("python3", Image::program("python").bytes());
    files.put("script", format!("#!{} -u\n", shown(&python)));
    let found = files.look("script", &[]);
    found.says("launcher", "ok", "is a script").says("injection", "ok", "").exits(0);
    assert_eq!(found.json["program"]["program"], shown(&python));
}

#[test]
fn the_library_ends_where_env_or_a_shell_starts_the_program() {
    let files = Files::new();
    let tool = files.put("tool", Image::program("tool").bytes());
    let script = files.put("script", "#!/usr/bin/env tool\n");
    let mut command = files.command();
    let found = Found::of(command.arg(&script).env("PATH", files.path("")));
    let fix = format!("capgate run -- {} {}", shown(&tool), shown(&script));
    found.says("launcher", "failed", &fix).says("injection", "ok", "").exits(3);
    files.put("start.sh", "#!/bin/sh\nexec tool\n");
    files.look("start.sh", &[]).says("launcher", "failed", "what a shell starts are children").exits(3);
}

#[test]
fn the_program_behind_a_frameworks_python_is_what_is_looked_at() {
    let files = Files::new();
    let version = "Python.framework/Versions/3.12";
    files.put(&format!("{version}/bin/python3.12"), Image::program("stub").bytes());
    let real = format!("{version}/Resources/Python.app/Contents/MacOS/Python");
    let real = files.put(&real, Image::program("python").links(METAL).bytes());
    std::os::unix::fs::symlink("python3.12", files.path(&format!("{version}/bin/python3"))).unwrap();
    let found = files.look(&format!("{version}/bin/python3"), &[]);
    found.says("launcher", "failed", &format!("capgate run -- {}", shown(&real))).exits(3);
    assert_eq!(found.json["program"]["program"], shown(&real));
    // Any other program in a folder of that name is itself.
    files.put("bin/python3.12", Image::program("python").bytes());
    assert!(!files.look("bin/python3.12", &[]).exits(0).run.out.contains("launcher"));
}

#[test]
fn children_stay_stock_and_known_launchers_are_named() {
    let files = Files::new();
    for (name, status, part) in [
        ("bench", "ok", "stay stock"),
        ("ollama", "warning", "runner"),
        ("llama-server", "warning", "--model"),
    ] {
        files.put(name, Image::program(name).bytes());
        files.look(name, &[]).says("children", status, part).exits(0);
    }
}

#[test]
fn names_are_looked_up_as_a_shell_does() {
    let files = Files::new();
    files.put("bench", Image::program("bench").bytes());
    let found = Found::of(files.command().arg("bench").env("PATH", files.path("")));
    found.says("program", "ok", "is a program for arm64, from macOS 14.0 on").exits(0);
}
