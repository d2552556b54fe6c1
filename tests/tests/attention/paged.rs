//! Keys and values in pages: against the reference of the gathered ones, with the bits of dense
//! ones.

use half::bf16;
use warpsmith::{Attention, Float, Scatter, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::output::same_bits;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{on_every_device, refused};

use super::case;
use super::check::{check, ones};

#[test]
fn attention_matches_its_reference_for_keys_in_pages() {
    holds(
        Effort {
            cases: [24, 300],
            largest: [100, 600],
        },
        case::paged,
        check,
    );
}

/// q of 2 sequences and 4 heads, and a pool of 2 heads with 5 pages of 16 positions.
fn drawn<T: TestElement>(device: &warpsmith::Device, seqlen_q: usize) -> (Tensor<T>, Tensor<T>) {
    let draw = |shape: &[usize], seed| {
        let drawn = Operand::draw(device, shape, Values::Uniform, View::Contiguous, seed);
        drawn.expect("an operand").tensor
    };
    (draw(&[2, seqlen_q, 4, 64], 1), draw(&[5, 16, 2, 64], 2))
}

#[test]
fn entries_that_name_no_page_mean_the_last_one_by_every_kernel() {
    fn of<T: Float + TestElement>(device: &warpsmith::Device, stream: &warpsmith::Stream) {
        let (q, pool) = drawn::<T>(device, 3);
        let with =
            |entries: [i32; 6]| Tensor::from_slice(device, &[2, 3], &entries).expect("pages");
        let odd = with([1, -1, 0, 5, i32::MAX, i32::MIN]);
        let clamped = with([1, 4, 0, 4, 4, 4]);
        let attention = |table| {
            Attention::new(&q, &pool, &pool)
                .pages(table)
                .seqused_k(&[48, 47])
        };
        let plan = attention(&odd).plan(stream).expect("a plan");
        for candidate in plan.candidates() {
            let run = |table| {
                let run = attention(table).with_kernel(&candidate.name).run(stream);
                run.expect("attention").to_ndarray().expect("o")
            };
            same_bits(&run(&odd), &run(&clamped)).expect(&candidate.name);
        }
    }
    on_every_device(|device, stream| {
        of::<bf16>(device, stream);
        of::<f32>(device, stream);
    });
}

/// The emulator reports a read of what was never written.
#[test]
fn entries_beyond_a_length_are_not_read() {
    on_every_device(|device, stream| {
        let (q, pool) = drawn::<bf16>(device, 2);
        let table = Tensor::<i32>::empty(stream, &[8]).expect("a table");
        let places = Tensor::from_slice(device, &[3], &[0_i32, 1, 4]).expect("places");
        let pages = Tensor::from_slice(device, &[3], &[3_i32, 0, 2]).expect("pages");
        let put = Scatter::new(&places, &pages).run_into(&table, stream);
        put.expect("two pages of the first sequence, one of the second");
        let table = table.reshape(&[2, 4]).expect("a view");
        let attention = Attention::new(&q, &pool, &pool)
            .pages(&table)
            .seqused_k(&[20, 16]);
        let plan = attention.plan(stream).expect("a plan");
        for candidate in plan.candidates() {
            for attention in [attention.clone(), attention.clone().causal()] {
                let run = attention.with_kernel(&candidate.name).run(stream);
                run.expect("attention").to_vec().expect(&candidate.name);
            }
        }
    });
}

#[test]
fn lengths_on_the_device_beyond_the_table_end_with_it() {
    on_every_device(|device, stream| {
        let (q, pool) = drawn::<bf16>(device, 2);
        let table = Tensor::from_slice(device, &[2, 2], &[4, 1, 0, 3]).expect("a table");
        let too_long = Tensor::from_slice(device, &[2], &[33, i32::MAX]).expect("lengths");
        let paged = Attention::new(&q, &pool, &pool).pages(&table);
        let plan = paged.plan(stream).expect("a plan");
        for candidate in plan.candidates() {
            let run = |attention: Attention<'_, bf16>| {
                let o = attention.with_kernel(&candidate.name).run(stream);
                o.expect("attention").to_ndarray().expect("o")
            };
            let clamped = run(paged.clone().seqused_k(&too_long));
            same_bits(&clamped, &run(paged.clone())).expect(&candidate.name);
        }
    });
}

#[test]
fn a_cache_that_grows_by_scatter_gives_the_results_of_dense_keys() {
    on_every_device(|device, stream| {
        let (page_size, steps) = (16, 35);
        let draw = |shape: &[usize], seed| {
            let drawn =
                Operand::<bf16>::draw(device, shape, Values::Uniform, View::Contiguous, seed);
            drawn.expect("an operand").tensor
        };
        let (q, kv) = (draw(&[1, 1, 8, 64], 1), draw(&[1, steps, 2, 64], 2));
        let pool = Tensor::<bf16>::zeros(stream, &[4, page_size, 2, 64]).expect("a pool");
        let rows = pool.reshape(&[4 * page_size, 2, 64]).expect("a view");
        let pages = [3, 0, 2];
        let table = Tensor::from_slice(device, &[1, 3], &pages).expect("a table");
        for step in 0..steps {
            let row = pages[step / page_size] * page_size as i32 + (step % page_size) as i32;
            let row = Tensor::from_slice(device, &[1], &[row]).expect("a place");
            let new = kv.slice(1, step..step + 1).expect("a step");
            let new = new.reshape(&[1, 2, 64]).expect("a view");
            let put = Scatter::new(&row, &new).run_into(&rows, stream);
            put.expect("an appended key");
            let keys = [step as i32 + 1];
            let paged = Attention::new(&q, &pool, &pool)
                .pages(&table)
                .seqused_k(&keys);
            // Parts of keys would be others where a table has room for more.
            let paged = paged.key_splits(1);
            let plan = paged.plan(stream).expect("a plan");
            let kernel = &plan.chosen().expect("a kernel").name;
            let seen = kv.slice(1, ..step + 1).expect("a view");
            let dense = Attention::new(&q, &seen, &seen)
                .with_kernel(kernel)
                .key_splits(1);
            let array = |attention: &Attention<'_, bf16>| {
                let o = attention.run(stream).expect("attention");
                o.to_ndarray().expect("o")
            };
            same_bits(&array(&paged), &array(&dense)).expect(kernel);
        }
    });
}

#[test]
fn few_queries_of_pages_of_whole_warps_are_decoded() {
    on_every_device(|device, stream| {
        if device.arch() < (8, 0) {
            return;
        }
        let (q, table) = (ones::<bf16>(stream, &[1, 1, 8, 64]), [0_i32; 40]);
        for (page_size, is_decoded) in [(16, true), (48, true), (8, false), (20, false)] {
            let pool: Tensor<bf16> = ones(stream, &[2, page_size, 2, 64]);
            let table = Tensor::from_slice(device, &[1, 40], &table).expect("a table");
            let plan = Attention::new(&q, &pool, &pool).pages(&table).plan(stream);
            let plan = plan.expect("a plan");
            let chosen = &plan.chosen().expect("a kernel").name;
            assert_eq!(chosen.starts_with("flash_decode"), is_decoded, "{plan}");
            let pages = format!("pages=2x{page_size}");
            assert!(plan.to_string().contains(&pages), "{plan}");
        }
    });
}

#[test]
fn tables_and_pools_that_do_not_fit_are_refused() {
    on_every_device(|_, stream| {
        let q: Tensor<f32> = ones(stream, &[2, 3, 4, 8]);
        let pool: Tensor<f32> = ones(stream, &[5, 16, 2, 8]);
        let table = |shape: &[usize]| Tensor::<i32>::full(stream, shape, 0).expect("a table");
        let good = table(&[2, 3]);
        let attention = || Attention::new(&q, &pool, &pool).pages(&good);
        let other = table(&[3, 2]);
        refused!(
            attention().pages(&other).run(stream)
            => Shape::Mismatch, "`pages`", "[3, 2]", "[2, n]"
        );
        let flat = table(&[6]);
        refused!(
            attention().pages(&flat).run(stream)
            => Shape::Mismatch, "`pages`", "[6]", "[2, n]"
        );
        refused!(
            attention().seqused_k(&[48, 49]).run(stream)
            => Argument::Value, "seqused_k", "49 at index 1", "0 to 48"
        );
        refused!(
            attention().leftpad_k(&[0, 0]).run(stream)
            => Argument::Unsupported, "leftpad_k beside pages", "seqused_k"
        );
        let packed: Tensor<f32> = ones(stream, &[80, 2, 8]);
        refused!(
            Attention::new(&q, &packed, &packed).pages(&good).cu_seqlens_k(&[0, 3, 9]).run(stream)
            => Argument::Unsupported, "cu_seqlens_k beside pages"
        );
        refused!(
            Attention::new(&q, &packed, &packed).pages(&good).run(stream)
            => Shape::Mismatch, "`k`", "[pages, page_size, heads, head_dim]"
        );
        for shape in [[5, 8, 2, 8], [4, 16, 2, 8]] {
            let v: Tensor<f32> = ones(stream, &shape);
            let attention = Attention::new(&q, &pool, &v).pages(&good);
            refused!(attention.run(stream) => Shape::Mismatch, "`v`", "[5, 16, 2, 8]");
        }
    });
}

#[test]
fn pools_without_positions_and_tables_without_pages_have_no_keys() {
    on_every_device(|_, stream| {
        let q: Tensor<f32> = ones(stream, &[2, 3, 4, 8]);
        for (pool, columns) in [([0, 16, 2, 8], 3), ([5, 0, 2, 8], 3), ([5, 16, 2, 8], 0)] {
            let pool = Tensor::<f32>::zeros(stream, &pool).expect("a pool");
            let table = Tensor::<i32>::full(stream, &[2, columns], 0).expect("a table");
            let attention = Attention::new(&q, &pool, &pool).pages(&table);
            refused!(
                attention.clone().seqused_k(&[1, 0]).run(stream)
                => Argument::Value, "seqused_k", "0 to 0"
            );
            let o = attention.run(stream).expect("no keys").to_vec().expect("o");
            assert!(o.iter().all(|&x| x == 0.0));
        }
    });
}
