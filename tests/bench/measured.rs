//! A bundle as it should be: fair, proven, judged, and accepted by `evidence check`.

use std::fs;

use crate::lab::{Lab, NAMED, files, run};

#[test]
fn an_override_arm_is_real_and_its_bundle_is_accepted() {
    let lab = Lab::new();
    let ran = lab
        .bench("--override 1009/65536 --cpu --rounds 4 --out bundle --source https://example.org/bundle")
        .exits(0);
    assert!(ran.out.contains("tiny.gguf: publishable\n"), "{}", ran.out);
    assert!(ran.out.contains("bundle: bundle (4 rounds, 0 discarded)\n"), "{}", ran.out);
    lab.has_no_trial();

    let judged = lab.run("evidence check bundle --format json").exits(0).json();
    assert_eq!(judged["verdict"], "publishable");
    let rows = judged["rows"].as_array().unwrap();
    let of = |arm: &str, test: &str| {
        let row = rows.iter().find(|row| row["arm"] == arm && row["test"] == test);
        row.unwrap_or_else(|| panic!("{arm} {test}: {judged}")).clone()
    };
    // Four rounds of two repetitions each.
    assert_eq!(of("override", "pp64")["n"], 8);
    assert!(of("override", "pp64")["ratio_to_stock"].as_f64().unwrap() > 9.0);
    assert!((of("cpu", "tg16")["ratio_to_stock"].as_f64().unwrap() - 1.5).abs() < 0.1);

    let state = lab.state("bundle");
    let order = |round: usize| {
        let runs = state["rounds"][round]["runs"].as_array().unwrap().iter();
        runs.map(|run| run["arm"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(order(0), ["stock", NAMED, "cpu"]);
    assert_eq!(order(1), ["cpu", NAMED, "stock"]);
    assert_eq!((order(2), order(3)), (order(0), order(1)));
    assert_eq!(state["warm_ups"].as_array().unwrap().len(), 3);

    // Each process of the override arm was granted by a trial of its own, and says so.
    let mut origins = Vec::new();
    for round in 1..=4 {
        let path = format!("bundle/rounds/{round:02}/{NAMED}.decisions.jsonl");
        let lines = fs::read_to_string(lab.path(&path)).unwrap();
        for line in lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()) {
            assert_eq!(
                (&line["outcome"], &line["profile"]),
                (&"grant".into(), &"trial-1009-65536".into()),
                "{line}"
            );
            origins.push(line["registry_origin"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(origins.len(), 8);
    assert!(origins.iter().all(|origin| origin.starts_with("trial/")), "{origins:?}");
    origins.dedup();
    assert_eq!(origins.len(), 4);

    // What each arm was is recorded, by a run that is no sample.
    for arm in ["stock", NAMED, "cpu"] {
        let text = fs::read_to_string(lab.path(&format!("bundle/warm-up/{arm}.record.json"))).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["complete"], true, "{arm}");
        let inserted = text.contains("libcapgate.so");
        assert_eq!(inserted, arm == NAMED, "{arm}");
        let command = record["run"]["command"].as_array().unwrap();
        assert_eq!(command.iter().any(|word| word == "-ngl"), arm == "cpu", "{arm}");
    }
    assert!(fs::read_to_string(lab.path("bundle/bundle.toml")).unwrap().contains("role = \"record\""));

    // The draft is complete but for what no guest can know.
    let drafts = files(&lab.path("bundle/profiles"));
    assert_eq!(drafts, ["m1-ultra-25g76-25f84-llama-bench-b10167.toml"]);
    let sums = fs::read_to_string(lab.path("bundle/SHA256SUMS")).unwrap();
    assert!(!sums.contains("profiles/") && sums.contains("  bench.json\n"), "{sums}");
}

#[test]
fn the_same_samples_get_the_same_verdict_from_bench_and_from_check() {
    for (what, exit) in [("nothing", 0), ("family", 4), ("differ", 4)] {
        let lab = Lab::new().does(what, "override");
        let mut told =
            lab.bench("--override 1009/65536 --rounds 2 --out bundle --format json").exits(exit).json();
        let judged = lab.run("evidence check bundle --format json").exits(exit).json();
        let own = ["folder", "rounds", "discarded", "drafts"];
        let told = told.as_object_mut().unwrap();
        assert!(own.iter().all(|key| told.remove(*key).is_some()), "{what}");
        assert_eq!(serde_json::Value::from(told.clone()), judged, "{what}");
        assert_eq!(judged["verdict"], if exit == 0 { "publishable" } else { "refused" }, "{what}");
    }
}

#[test]
fn a_ladder_names_the_least_set_that_gives_the_whole_gain() {
    let lab = Lab::new();
    let ran = lab.bench("--ladder --rounds 3 --out bundle --source https://example.org/bundle").exits(0);
    assert!(ran.out.contains("tiny.gguf: least sufficient set: 1007 / 32768\n"), "{}", ran.out);
    lab.has_no_trial();
    let judged = lab.run("evidence check bundle --format json").exits(0).json();
    let sets = judged["workloads"][0]["sets"].as_array().unwrap();
    assert_eq!(sets.len(), 10);
    let verdict = |family: u64| {
        let set = sets
            .iter()
            .find(|set| set["apple_family_max"] == family && set["max_threadgroup_memory"] == 32_768);
        set.unwrap()["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (verdict(1006), verdict(1007), verdict(1010)),
        ("no-benefit".into(), "publishable".into(), "publishable".into())
    );
    let ladder = &judged["workloads"][0]["ladder"];
    assert_eq!(ladder["sufficient"]["apple_family_max"], 1007);
    assert!(
        ladder["seed"].as_u64().is_some() && ladder["resamples"].as_u64().is_some_and(|count| count >= 1000)
    );
    // What was tested is what the draft lists, the least sufficient first.
    let draft =
        fs::read_to_string(lab.path("bundle/profiles/m1-ultra-25g76-25f84-llama-bench-b10167.toml")).unwrap();
    let families: Vec<&str> =
        draft.lines().filter_map(|line| line.strip_prefix("apple_family_max = ")).collect();
    assert_eq!((families[0], families.len()), ("1007", 8), "{draft}");
}

#[test]
fn secrets_reach_no_file_of_a_bundle_and_arms_get_them_all_the_same() {
    const TOKEN: &str = "hf_aQ7xZp2Lk9VtR4mWc8YbN3sDfGhJ";
    const KEY: &str = "Zx81-q7Lm-9pVt-s3cr3t";
    let lab = Lab::new().with("HF_TOKEN", TOKEN).with("SERVICE_PASSWORD", "correct horse battery");
    let words = format!("-m tiny.gguf -p 64 -n 16 -r 2 --api-key {KEY}");
    let ran = run(&mut lab.bench_with("--override 1009/65536 --rounds 1 --out bundle", &words)).exits(4);
    // Two samples are too few for anything else; what counts here is what stands where.
    assert!(ran.out.contains("refused[too-few-samples]"), "{}", ran.out);
    let mut seen = 0;
    for name in files(&lab.path("bundle")) {
        let text = String::from_utf8_lossy(&fs::read(lab.path("bundle").join(&name)).unwrap()).into_owned();
        for secret in [TOKEN, KEY, "correct horse battery"] {
            assert!(!text.contains(secret), "{secret} in {name}");
        }
        seen += text.matches("[masked]").count();
    }
    assert!(seen >= 3, "{seen}");
}
