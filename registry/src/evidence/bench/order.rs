//! The order in which the arms of a round run.

/// The arms of a round, counted from 0: as they are in even rounds, the other way round in odd ones (ABBA).
///
/// Over two rounds each arm has the same mean place, so that whatever changes steadily, such as heat, meets all alike.
pub fn of_round<T: Clone>(arms: &[T], round: usize) -> Vec<T> {
    let mut order = arms.to_vec();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_two_rounds_every_arm_has_the_same_mean_place() {
        let arms = ["a", "b", "c", "d"];
        let [first, second] = [0, 1].map(|round| of_round(&arms, round));
        assert_eq!((first.join(""), second.join("")), ("abcd".to_owned(), "dcba".to_owned()));
        for arm in arms {
            let place = |order: &[&str]| order.iter().position(|other| *other == arm).unwrap();
            assert_eq!(place(&first) + place(&second), arms.len() - 1);
        }
        assert_eq!(of_round(&arms, 8), first);
    }
}
