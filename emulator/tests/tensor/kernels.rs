//! The kernels that the probe ran: one instruction in a loop each.
//!
//! The same code as scripts/gpu/tensor/probe.py.

use super::inputs::Format;

/// An instruction and its types and shape.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) d: String,
    pub(crate) a: String,
    pub(crate) b: String,
    version: String,
    pub(crate) a_in_memory: bool,
    instruction: String,
    scales: String,
}

fn bits(name: &str) -> usize {
    Format::of(name).bits as usize
}

fn registers(prefix: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|i| format!("%{prefix}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

fn loads(prefix: &str, count: usize, ty: &str, base: &str, size: usize) -> String {
    (0..count)
        .map(|i| format!("ld.global.{ty} %{prefix}{i}, [{base}+{}];\n", i * size))
        .collect()
}

impl Case {
    /// Parses a line of the answers.
    pub(crate) fn parse(line: &str) -> Self {
        let (head, scales) = line.split_once('|').expect("a case has scales");
        let words: Vec<&str> = head.split_whitespace().collect();
        let [_, name, m, n, k, d, a, b, version, source, instruction] = words[..] else {
            panic!("not a case: {line}");
        };
        let extent = |word: &str| word.parse().expect("an extent is a number");
        Self {
            name: name.to_owned(),
            m: extent(m),
            n: extent(n),
            k: extent(k),
            d: d.to_owned(),
            a: a.to_owned(),
            b: b.to_owned(),
            version: version.to_owned(),
            a_in_memory: source == "memory",
            instruction: instruction.to_owned(),
            scales: scales.to_owned(),
        }
    }

    pub(crate) fn is_wgmma(&self) -> bool {
        self.instruction.starts_with("wgmma")
    }

    pub(crate) fn threads(&self) -> usize {
        if self.is_wgmma() { 128 } else { 32 }
    }

    /// Bytes of a register of A and B, and of one of C.
    fn sizes(&self) -> (usize, usize) {
        let wide = |name: &str| if name == "f64" { 8 } else { 4 };
        (wide(&self.a), wide(&self.d))
    }

    fn counts(&self) -> (usize, usize, usize) {
        let (operand, sum) = self.sizes();
        let each = |elements: usize, name: &str, size: usize| {
            elements * bits(name) / (8 * size) / self.threads()
        };
        (
            each(self.m * self.k, &self.a, operand),
            each(self.n * self.k, &self.b, operand),
            each(self.m * self.n, &self.d, sum),
        )
    }

    fn sum_type(&self) -> &'static str {
        match self.d.as_str() {
            "f32" => "f32",
            "f64" => "f64",
            _ => "b32",
        }
    }

    /// The text of the kernel.
    pub(crate) fn ptx(&self) -> String {
        if self.is_wgmma() {
            self.wgmma()
        } else {
            self.mma()
        }
    }

    fn head(&self, operand: &str) -> String {
        let (version, sum) = (&self.version, self.sum_type());
        format!(
            ".version {version}
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd,
    .param .u32 steps, .param .u64 da, .param .u64 db)
{{
    .reg .pred %p<4>; .reg .b32 %t<20>; .reg .b64 %q<40>;
    .reg .{operand} %a<9>; .reg .{operand} %b<9>; .reg .{sum} %c<129>;
    ld.param.u64 %q0, [pa]; ld.param.u64 %q1, [pb]; ld.param.u64 %q2, [pc]; ld.param.u64 %q3, [pd];
    ld.param.u32 %t0, [steps]; ld.param.u64 %q10, [da]; ld.param.u64 %q11, [db];
    mov.u32 %t1, %tid.x; mov.u32 %t2, %ctaid.x;
"
        )
    }

    fn stores(&self, count: usize, size: usize) -> String {
        let ty = self.sum_type();
        (0..count)
            .map(|i| format!("st.global.{ty} [%q3+{}], %c{i};\n", i * size))
            .collect()
    }

    fn mma(&self) -> String {
        let (na, nb, nc) = self.counts();
        let (wide, cwide) = self.sizes();
        let operand = if wide == 8 { "f64" } else { "b32" };
        let (a, b, c) = (registers("a", na), registers("b", nb), registers("c", nc));
        format!(
            "{head}
    mad.lo.u32 %t3, %t2, 32, %t1;
    mul.wide.u32 %q4, %t3, {c_bytes};
    add.u64 %q2, %q2, %q4; add.u64 %q3, %q3, %q4;
    mul.lo.u32 %t4, %t2, %t0; mad.lo.u32 %t4, %t4, 32, %t1;
    mul.wide.u32 %q5, %t4, {a_bytes}; add.u64 %q0, %q0, %q5;
    mul.wide.u32 %q6, %t4, {b_bytes}; add.u64 %q1, %q1, %q6;
{load_c}
LOOP:
{load_a}{load_b}
    {instruction} {c}, {a}, {b}, {c};
    add.u64 %q0, %q0, {a_step}; add.u64 %q1, %q1, {b_step};
    sub.u32 %t0, %t0, 1; setp.ne.u32 %p0, %t0, 0;
    @%p0 bra LOOP;
{store_c}
    ret;
}}
",
            head = self.head(operand),
            c_bytes = nc * cwide,
            a_bytes = na * wide,
            b_bytes = nb * wide,
            load_c = loads("c", nc, self.sum_type(), "%q2", cwide),
            load_a = loads("a", na, operand, "%q0", wide),
            load_b = loads("b", nb, operand, "%q1", wide),
            instruction = self.instruction,
            a_step = na * wide * 32,
            b_step = nb * wide * 32,
            store_c = self.stores(nc, cwide),
        )
    }

    /// Bytes of shared memory for one step: A, if it is there, then B.
    pub(crate) fn image_bytes(&self) -> usize {
        32 * self.n + if self.a_in_memory { 2048 } else { 0 }
    }

    fn wgmma(&self) -> String {
        let (na, _, nc) = self.counts();
        let na = if self.a_in_memory { 0 } else { na };
        let first = match na {
            0 => "%q10".to_owned(),
            _ => registers("a", na),
        };
        format!(
            "{head}
    .shared .align 1024 .b8 s[{image}];
    mov.u32 %t5, s; shr.u32 %t6, %t5, 4; cvt.u64.u32 %q12, %t6;
    add.u64 %q10, %q10, %q12; add.u64 %q11, %q11, %q12;
    mad.lo.u32 %t3, %t2, 128, %t1;
    mul.wide.u32 %q4, %t3, {c_bytes};
    add.u64 %q2, %q2, %q4; add.u64 %q3, %q3, %q4;
    mul.lo.u32 %t4, %t2, %t0;
    mul.wide.u32 %q5, %t4, {image}; add.u64 %q1, %q1, %q5;
    mad.lo.u32 %t4, %t4, 128, %t1;
    mul.wide.u32 %q6, %t4, {a_bytes}; add.u64 %q0, %q0, %q6;
{load_c}
LOOP:
{load_a}
    shl.b32 %t7, %t1, 4;
COPY:
    cvt.u64.u32 %q7, %t7; add.u64 %q7, %q1, %q7;
    setp.ge.u32 %p1, %t7, {image};
    @%p1 bra COPIED;
    ld.global.v4.b32 {{%t8, %t9, %t10, %t11}}, [%q7];
    add.u32 %t12, %t5, %t7;
    st.shared.v4.b32 [%t12], {{%t8, %t9, %t10, %t11}};
    add.u32 %t7, %t7, 2048;
    bra COPY;
COPIED:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p2, %t0, 0;
    wgmma.fence.sync.aligned;
    {instruction} {c}, {first}, %q11, %p2{scales};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    bar.sync 0;
    add.u64 %q0, %q0, {a_step}; add.u64 %q1, %q1, {image};
    sub.u32 %t0, %t0, 1; setp.ne.u32 %p0, %t0, 0;
    @%p0 bra LOOP;
{store_c}
    ret;
}}
",
            head = self.head("b32"),
            image = self.image_bytes(),
            c_bytes = nc * 4,
            a_bytes = na * 4,
            load_c = loads("c", nc, self.sum_type(), "%q2", 4),
            load_a = loads("a", na, "b32", "%q0", 4),
            instruction = self.instruction,
            c = registers("c", nc),
            scales = self.scales,
            a_step = na * 4 * 128,
            store_c = self.stores(nc, 4),
        )
    }
}
