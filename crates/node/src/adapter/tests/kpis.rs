use super::super::kpis::read;

fn shown(text: &str) -> String {
    let kpis = read(text).unwrap().kpis;
    kpis.iter().map(|(kpi, value)| format!("{kpi} {value};")).collect()
}

#[test]
fn lines_of_prometheus_are_kpis() {
    let text = r#"
# HELP busy_units Units at work.
# TYPE busy_units gauge
busy_units 4
pending_units{partition="big", Tier="a,b"} 2.5e1 1395066363000
oldest_wait_seconds 720.25
http:requests +3
load NaN
"#;
    let kpis = r#"busy-units 4;http-requests 3;oldest-wait 720250ms;pending-units{partition="big",tier="a,b"} 25;"#;
    assert_eq!(shown(text), kpis);
}

#[test]
fn lines_of_reports_are_kpis() {
    let text = "busy-units=4\noldest-wait=12m\npending-units{partition=\"big\"}=3\nused = 50%\n";
    let text = text.replace("used = 50%\n", "memory=2GiB");
    let kpis = "busy-units 4;memory 2GiB;oldest-wait 12m;pending-units{partition=\"big\"} 3;";
    assert_eq!(shown(&text), kpis);
}

#[test]
fn units_at_work_and_members_are_told_beside_the_kpis() {
    let many: String =
        (0..300).map(|n| format!("member_up{{member=\"n{n}\"}} {}\n", n % 2)).collect();
    let busy = |unit: &str, work: &str| format!("unit_busy{{unit=\"ab-{unit}\"}} {work}\n");
    let busy = [busy("u3:9", "7200.5"), busy("u4:1", "0"), busy("u5:1", "0.1")].concat();
    let text = format!("busy 1\n{busy}{many}");
    let read = read(&text).unwrap();
    assert_eq!((read.kpis.count(), read.members.iter().len()), (1, 300));
    assert_eq!(read.members.iter().filter(|(_, up)| *up).count(), 150);
    let busy = [("ab-u3:9".to_owned(), 7200), ("ab-u5:1".to_owned(), 1)];
    assert_eq!(read.busy.into_iter().collect::<Vec<_>>(), busy);
    let said = super::super::kpis::read("member_up{member=\"a b\"} 1").unwrap_err();
    assert!(said.contains("`a b` names no member"), "{said}");
}

#[test]
fn what_is_no_kpi_is_named_with_its_line() {
    for (text, says) in [
        ("busy 1\nbusy", "line 2 (`busy`): the value is missing"),
        ("busy one", "`one` is no number"),
        ("busy=one", "line 1"),
        ("busy +Inf", "`+Inf` is too large"),
        ("busy{a=1} 2", "the value of a label has no quotes"),
        ("busy{a=\"1} 2", "the value of a label does not end"),
        ("busy{a=\"\\\"\"} 2", "is not a KPI"),
        ("busy 1\nbusy=2", "busy is there already"),
        ("Busy-Units=2", "is not a name"),
    ] {
        let said = read(text).unwrap_err();
        assert!(said.contains(says), "{said}");
    }
    let many: String = (0..257).map(|number| format!("busy{number} 1\n")).collect();
    let said = read(&many).unwrap_err();
    assert!(said.contains("line 257") && said.contains("256 KPIs at most"), "{said}");
}
