use super::*;

fn arrive(barrier: &mut Mbarrier, count: u32) -> Result<bool, String> {
    barrier.arrive(count, false, false, &Stamp::default())
}

#[test]
fn a_phase_needs_its_arrivals_and_its_bytes() {
    let mut barrier = Mbarrier::new(2);
    let first = barrier.state();
    assert_eq!(arrive(&mut barrier, 1), Ok(false));
    assert_eq!(barrier.expect(64), Ok(()));
    assert_eq!(arrive(&mut barrier, 1), Ok(false));
    assert_eq!(barrier.has_passed(first), Ok(false));
    assert_eq!(barrier.complete(48, &Stamp::default()), Ok(false));
    assert_eq!(barrier.complete(16, &Stamp::default()), Ok(true));
    assert_eq!(barrier.has_passed(first), Ok(true));
    assert!(barrier.has_parity_passed(0) && !barrier.has_parity_passed(1));
}

#[test]
fn bytes_may_come_before_they_are_expected() {
    let mut barrier = Mbarrier::new(1);
    assert_eq!(barrier.complete(32, &Stamp::default()), Ok(false));
    assert_eq!(barrier.expect(32), Ok(()));
    assert_eq!(arrive(&mut barrier, 1), Ok(true));
}

#[test]
fn the_phase_before_the_first_counts_as_passed() {
    let barrier = Mbarrier::new(1);
    assert!(barrier.has_parity_passed(1) && !barrier.has_parity_passed(0));
}

#[test]
fn who_drops_out_is_not_waited_for_again() {
    let mut barrier = Mbarrier::new(3);
    assert_eq!(barrier.arrive(1, true, false, &Stamp::default()), Ok(false));
    assert_eq!(arrive(&mut barrier, 2), Ok(true));
    assert_eq!(arrive(&mut barrier, 2), Ok(true));
}

#[test]
fn limits_are_held() {
    let mut barrier = Mbarrier::new(2);
    assert!(arrive(&mut barrier, 3).is_err());
    assert!(arrive(&mut barrier, 0).is_err());
    assert!(barrier.arrive(2, false, true, &Stamp::default()).is_err());
    assert_eq!(barrier.expect(MOST), Ok(()));
    assert!(barrier.expect(1).is_err());
    assert!(barrier.complete(MOST + 1, &Stamp::default()).is_err());
    let mut table = Mbarriers::new(1);
    let at = Place {
        rank: 0,
        offset: 1024,
    };
    assert!(table.init(at, 0).is_err() && table.init(at, MOST + 1).is_err());
    assert_eq!(table.init(at, MOST), Ok(()));
    assert!(table.init(at, 1).is_err());
    assert_eq!(table.invalidate(at), Ok(()));
    assert!(table.get(at).is_err() && table.invalidate(at).is_err());
    assert_eq!(table.init(at, 1), Ok(()));
}

#[test]
fn a_state_two_phases_old_is_refused() {
    let mut barrier = Mbarrier::new(1);
    let first = barrier.state();
    assert_eq!(arrive(&mut barrier, 1), Ok(true));
    assert_eq!(arrive(&mut barrier, 1), Ok(true));
    assert!(barrier.has_passed(first).is_err());
    assert!(barrier.has_passed(u64::MAX).is_err());
}

#[test]
fn ranges_that_touch_an_mbarrier_are_found() {
    let mut table = Mbarriers::new(2);
    for offset in [1024, 1040] {
        let at = Place { rank: 1, offset };
        assert_eq!(table.init(at, 1), Ok(()));
    }
    for (offset, bytes, want) in [
        (1016, 8, None),
        (1017, 8, Some(1024)),
        (1031, 1, Some(1024)),
        (1032, 8, None),
        (1032, 16, Some(1040)),
        (1048, 4, None),
    ] {
        assert_eq!(table.within(1, offset, bytes), want, "{offset}");
        assert_eq!(table.within(0, offset, bytes), None, "{offset}");
    }
}
