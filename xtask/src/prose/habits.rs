//! Habits of writing that cost a reader a second reading.

/// Words before "no" in sentences that are plain: "There is no GPU".
const THERE: [&str; 3] = ["there", "has", "have"];
/// Words before `used to` where it does not express the past: `is used to`.
const FORMS_OF_BE: [&str; 7] = ["is", "are", "be", "was", "were", "been", "being"];
/// Verbs of people.
const HUMAN: [&str; 8] = [
    "say", "says", "know", "knows", "ask", "asks", "lend", "lends",
];

/// The page of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Genre {
    Chapter,
    /// Tenses are free.
    History,
    /// Comments: a dot multiplies, and a first sentence has no verb (`What a copy moves.`).
    Code {
        is_first: bool,
    },
}

/// The habits in a sentence.
pub(super) fn of(sentence: &str, genre: Genre) -> impl Iterator<Item = &'static str> {
    let lower = sentence.to_lowercase();
    let words: Vec<&str> = lower
        .split(|mark: char| !mark.is_alphanumeric() && mark != '-' && mark != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let is_past = genre != Genre::History && (has(&words, &["no", "longer"]) || used_to(&words));
    let is_title = genre == Genre::Code { is_first: true };
    let is_list = sentence.contains(" · ") && !matches!(genre, Genre::Code { .. });
    let habits = [
        (is_no(&words), "\"is no\" for \"is not\""),
        (
            begins_with_what(sentence, &words) && !is_title,
            "a subject that begins with \"What\"",
        ),
        (of_those_of(&words), "\"those of\" twice"),
        (is_past, "history"),
        (what_nobody(&words), "\"what nothing\" for a noun"),
        (
            genre == Genre::Chapter && (has(&words, &["whatever"]) || has(&words, &["whoever"])),
            "\"whatever\" or \"whoever\"",
        ),
        (is_list, "a list joined by dots"),
        (
            kernels_speak(&words),
            "a kernel or type with a verb of people",
        ),
    ];
    habits
        .into_iter()
        .filter(|(is_found, _)| *is_found)
        .map(|(_, habit)| habit)
}

fn has(words: &[&str], wanted: &[&str]) -> bool {
    words.windows(wanted.len()).any(|window| window == wanted)
}

fn is_no(words: &[&str]) -> bool {
    words.windows(3).any(|window| {
        let is_verb = matches!(window[1], "is" | "are");
        is_verb && window[2] == "no" && !THERE.contains(&window[0])
    }) && !has(words, &["no", "longer"])
}

/// "What a kernel reads is ..", but not a question or a heading.
fn begins_with_what(sentence: &str, words: &[&str]) -> bool {
    let has_verb = words.iter().any(|word| matches!(*word, "is" | "are"));
    words.first() == Some(&"what") && has_verb && sentence.ends_with('.')
}

/// `what nothing wrote`, for memory that nothing wrote.
fn what_nobody(words: &[&str]) -> bool {
    has(words, &["what", "nothing"]) || has(words, &["what", "nobody"])
}

fn of_those_of(words: &[&str]) -> bool {
    let count = words.windows(2).filter(|window| *window == ["those", "of"]);
    count.count() > 1
}

fn used_to(words: &[&str]) -> bool {
    let before = |at: usize| at.checked_sub(1).map(|at| words[at]);
    let mut places = (0..words.len()).filter(|&at| words[at..].starts_with(&["used", "to"]));
    places.any(|at| !before(at).is_some_and(|word| FORMS_OF_BE.contains(&word)))
}

fn kernels_speak(words: &[&str]) -> bool {
    words.windows(2).any(|window| {
        matches!(window[0], "kernel" | "kernels" | "type" | "types") && HUMAN.contains(&window[1])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_habit_is_found_and_its_plain_form_is_not() {
        let cases = [
            ("It is no error.", "It is not an error."),
            ("Sums are no problem.", "There are no sums."),
            ("What it reads is a tile.", "What is a tile?"),
            (
                "Those of a and those of b.",
                "The times of a and those of b.",
            ),
            ("It reads what nothing wrote.", "It reads unwritten bytes."),
            ("Whatever it holds is 0.", "All of it is 0."),
            ("It no longer waits.", "It does not wait."),
            ("It used to wait.", "A flag is used to wait."),
            ("One · two.", "One, two."),
            ("The kernel knows the shape.", "The host knows the shape."),
        ];
        for (habit, plain) in cases {
            assert_eq!(of(habit, Genre::Chapter).count(), 1, "{habit}");
            assert_eq!(of(plain, Genre::Chapter).count(), 0, "{plain}");
        }
        assert_eq!(of("It no longer panics.", Genre::History).count(), 0);
        let code = |is_first| Genre::Code { is_first };
        assert_eq!(of("a · b", code(false)).count(), 0);
        assert_eq!(of("What is copied.", code(true)).count(), 0);
        assert_eq!(of("What is copied stays.", code(false)).count(), 1);
    }
}
