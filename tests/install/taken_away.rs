//! What uninstalling takes away, and what stays.

use std::fs;
use std::os::unix::fs::symlink;

use crate::site::Site;

#[test]
fn what_others_added_or_changed_stays() {
    let site = Site::new();
    site.install("--registry registry").ok();
    for (name, text) in [
        ("bin/tool", "theirs"),
        ("notes", "theirs"),
        ("etc/other.conf", "theirs"),
        ("etc/capgate/registry/notes.txt", "theirs"),
        ("lib/libcapgate.so", "patched"),
        ("var/log/capgate/501.jsonl", "{}\n"),
        ("var/log/capgate/notes.txt", "theirs"),
    ] {
        fs::write(site.file(name), text).unwrap();
    }
    fs::write(site.file("etc/capgate/seen"), "capgate's own").unwrap();
    fs::remove_file(site.file("bin/capgate")).unwrap();
    let json = site.uninstall("--format json").ok().json();
    let kept: Vec<&str> =
        json["kept"].as_array().unwrap().iter().map(|kept| kept["path"].as_str().unwrap()).collect();
    let expected = [
        "lib/libcapgate.so",
        "bin/tool",
        "notes",
        "etc/other.conf",
        "etc/capgate/registry/notes.txt",
        "var/log/capgate/501.jsonl",
        "var/log/capgate/notes.txt",
    ];
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(sorted(kept), sorted(expected.to_vec()));
    let left: Vec<String> = site.tree().into_keys().filter(|name| !name.ends_with('/')).collect();
    assert_eq!(left, sorted(expected.to_vec()));
    // The list is gone: nothing more is capgate's.
    let again = site.uninstall("");
    assert!(again.exit == 1 && again.err.contains("holds nothing that `capgate install` put there"));
}

#[test]
fn logs_go_only_when_they_are_meant() {
    let site = Site::new();
    site.install("").ok();
    fs::write(site.file("var/log/capgate/501.jsonl"), "{}\n").unwrap();
    fs::write(site.file("precious"), "kept").unwrap();
    symlink(site.file("precious"), site.file("var/log/capgate/502.jsonl")).unwrap();
    let shown = site.uninstall("--dry-run").ok();
    assert!(shown.out.contains("kept: var/log/capgate/501.jsonl: it is a decision log\n"), "{}", shown.out);
    assert!(shown.err.contains("`--logs` removes"), "{}", shown.err);
    site.uninstall("--logs").ok();
    let left: Vec<String> = site.tree().into_keys().collect();
    assert_eq!(left, ["precious", "var/", "var/log/", "var/log/capgate/", "var/log/capgate/502.jsonl"]);
}

#[test]
fn logs_of_an_earlier_installation_go_with_the_others() {
    let site = Site::new();
    site.install("").ok();
    fs::write(site.file("var/log/capgate/501.jsonl"), "{}\n").unwrap();
    site.uninstall("").ok();
    site.install("").ok();
    let shown = site.uninstall("--dry-run --logs").ok();
    assert!(!shown.out.contains("kept: var/log/capgate/501.jsonl"), "{}", shown.out);
    site.uninstall("--logs").ok();
    assert!(!site.file("var/log/capgate/501.jsonl").exists());
}

#[test]
fn a_list_that_leads_out_is_refused() {
    let site = Site::new();
    site.install("").ok();
    let list = site.file("etc/capgate/installed");
    let good = fs::read_to_string(&list).unwrap();
    fs::write(site.place.path().join("precious"), "kept").unwrap();
    let digest = "1".repeat(64);
    for line in [format!("file sha256:{digest} ../precious"), "folder /tmp".to_owned(), "nonsense".to_owned()]
    {
        fs::write(&list, format!("{good}{line}\n")).unwrap();
        let run = site.uninstall("");
        assert!(run.exit == 4 && run.err.contains("is no list of what was installed: line "), "{}", run.err);
        assert_eq!(site.install("").exit, 4);
    }
    // A folder that became a link is left alone with all behind it.
    fs::write(&list, good).unwrap();
    fs::rename(site.file("lib"), site.place.path().join("elsewhere")).unwrap();
    symlink(site.place.path().join("elsewhere"), site.file("lib")).unwrap();
    let run = site.uninstall("").ok();
    assert!(run.out.contains("kept: lib/libcapgate.so: ") && run.out.contains("kept: lib: "), "{}", run.out);
    assert!(site.place.path().join("elsewhere/libcapgate.so").exists());
    let huge = Site::new();
    huge.install("").ok();
    fs::File::create(huge.file("etc/capgate/installed")).unwrap().set_len(2 << 30).unwrap();
    assert_eq!(huge.uninstall("").exit, 1);
}

#[test]
fn an_agent_that_names_the_prefix_goes_first() {
    let site = Site::new();
    site.install("").ok();
    let before = site.tree();
    let server = site.place.path().join("server");
    fs::copy("/bin/true", &server).unwrap();
    let written =
        site.run(&format!("launch-agent write --prefix {} -- {}", site.prefix().display(), server.display()));
    written.ok();
    let agents = site.place.path().join("Library/LaunchAgents");
    let refused = |rest: &str, name: &str| {
        let run = site.uninstall(rest);
        let said = format!("error: the launch agent `{}` names a file of `", agents.join(name).display());
        assert!(run.exit == 1 && run.err.starts_with(&said), "{}{}", run.out, run.err);
        assert!(run.err.contains("\nhelp: capgate launch-agent remove --label "), "{}", run.err);
        assert_eq!(site.tree(), before);
    };
    refused("", "org.capgate.server.plist");
    let run = site.uninstall("--agents LaunchAgnets");
    assert!(
        run.exit == 1 && run.err.starts_with("error: there is no folder `LaunchAgnets`\n"),
        "{}",
        run.err
    );
    assert_eq!(site.tree(), before);
    site.run("launch-agent remove --name server").ok();
    // Somebody's own agent with the library in a variable, as XML, as a binary list, and as a file too large to parse.
    let library = site.file("lib/libcapgate.so");
    let mut variables = plist::Dictionary::new();
    let both = format!("/x.dylib:{}", library.display().to_string().to_uppercase());
    variables.insert("DYLD_INSERT_LIBRARIES".into(), both.into());
    let mut list = plist::Dictionary::new();
    list.insert("Label".into(), "own".into());
    list.insert("EnvironmentVariables".into(), variables.into());
    let value = plist::Value::Dictionary(list);
    let own = agents.join("own.plist");
    value.to_file_xml(&own).unwrap();
    refused("", "own.plist");
    value.to_file_binary(&own).unwrap();
    refused("", "own.plist");
    let padded = format!("{}<!--{}-->", library.display(), " ".repeat(70_000));
    fs::write(&own, padded).unwrap();
    refused(&format!("--agents {}", agents.display()), "own.plist");
    fs::write(&own, "<plist/>").unwrap();
    fs::create_dir(agents.join("folder.plist")).unwrap();
    site.uninstall(&format!("--agents {}", agents.display())).ok();
    assert!(!site.prefix().exists());
}
