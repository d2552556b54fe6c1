; Source of llc.ptx: `llc -mtriple=nvptx64-nvidia-cuda -mcpu=sm_90a -O2 llc.ll`.
target triple = "nvptx64-nvidia-cuda"
@tile = internal addrspace(3) global [256 x float] undef, align 16
@dynamic = external addrspace(3) global [0 x i8], align 16
@table = internal addrspace(4) constant [4 x i32] [i32 1, i32 -2, i32 3, i32 4], align 4
@counter = addrspace(1) global i64 0, align 8
@where = addrspace(1) global ptr addrspacecast (ptr addrspace(1) @counter to ptr), align 8
@packed = addrspace(1) global <{ i8, ptr }> <{ i8 1, ptr addrspacecast (ptr addrspace(1) @counter to ptr) }>, align 1
@format = private unnamed_addr addrspace(1) constant [6 x i8] c"%d %d\00"
@functions = internal addrspace(1) constant [2 x ptr] [ptr @add_one, ptr @double]
%Params = type { i32, double, [3 x i16] }

declare i32 @vprintf(ptr, ptr)
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.fma.f32(float, float, float)

define internal i32 @add_one(i32 %x) noinline { %y = add i32 %x, 1 ret i32 %y }
define internal i32 @double(i32 %x) noinline { %y = shl i32 %x, 1 ret i32 %y }
@twin = alias i32 (i32), ptr @exported
define i32 @exported(i32 %x) noinline { %y = xor i32 %x, 5 ret i32 %y }

define ptx_kernel void @everything(ptr noalias align 16 %out, ptr readonly noalias %in, i32 %n, half %h, ptr byval(%Params) align 8 %p) #0 !dbg !5 {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !dbg !8
  %inside = icmp ult i32 %tid, %n, !dbg !8
  br i1 %inside, label %load, label %join
load:
  %i = zext i32 %tid to i64
  %from = getelementptr float, ptr %in, i64 %i
  %v = load float, ptr %from, align 4, !dbg !9
  %slot = getelementptr float, ptr addrspace(3) @tile, i64 %i
  store float %v, ptr addrspace(3) %slot, align 4
  br label %join
join:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %a = call i32 asm sideeffect "{ .reg .pred p; setp.ne.u32 p, $1, 0; selp.u32 $0, 1, 2, p; }", "=r,r"(i32 %tid)
  %which = load i32, ptr %p
  switch i32 %which, label %done [ i32 0, label %c0 i32 1, label %c1 i32 2, label %c2 i32 3, label %c3 i32 4, label %c4 i32 5, label %c5 ]
c0: 
  %f0 = getelementptr [2 x ptr], ptr addrspace(1) @functions, i32 0, i32 %a
  %f = load ptr, ptr addrspace(1) %f0
  %r0 = call i32 %f(i32 %tid)
  br label %done
c1:
  %h2 = fadd half %h, 0xH3C00
  %f1 = fpext half %h2 to float
  %r1 = fptosi float %f1 to i32
  br label %done
c2: 
  %args = alloca { i32, i32 }, align 8
  store i32 %tid, ptr %args
  %r2 = call i32 @vprintf(ptr addrspacecast (ptr addrspace(1) @format to ptr), ptr %args)
  br label %done
c3:
  %t = getelementptr [4 x i32], ptr addrspace(4) @table, i32 0, i32 %a
  %r3 = load i32, ptr addrspace(4) %t
  br label %done
c4: 
  %old = atomicrmw add ptr addrspace(1) @counter, i64 1 seq_cst
  %r4 = trunc i64 %old to i32
  br label %done
c5:
  %r5 = call i32 @exported(i32 -2147483648)
  br label %done
done:
  %r = phi i32 [ 0, %join ], [ %r0, %c0 ], [ %r1, %c1 ], [ %r2, %c2 ], [ %r3, %c3 ], [ %r4, %c4 ], [ %r5, %c5 ]
  %rf = sitofp i32 %r to float
  %s = load <4 x float>, ptr addrspace(3) @tile, align 16
  %s0 = extractelement <4 x float> %s, i32 0
  %m = call float @llvm.fma.f32(float %s0, float %rf, float 1.5)
  %j = zext i32 %tid to i64
  %to = getelementptr float, ptr %out, i64 %j
  store float %m, ptr %to, align 4, !dbg !9
  ret void
}
attributes #0 = { "nvvm.maxntid"="256" "nvvm.minctasm"="2" "nvvm.maxnreg"="64" }
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!3, !4}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, producer: "hand", isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug)
!1 = !DIFile(filename: "everything.c", directory: "src")
!3 = !{i32 2, !"Dwarf Version", i32 2}
!4 = !{i32 2, !"Debug Info Version", i32 3}
!5 = distinct !DISubprogram(name: "everything", scope: !1, file: !1, line: 1, type: !6, unit: !0)
!6 = !DISubroutineType(types: !7)
!7 = !{null}
!8 = !DILocation(line: 3, column: 5, scope: !5)
!10 = distinct !DISubprogram(name: "inner", scope: !1, file: !1, line: 9, type: !6, unit: !0)
!9 = !DILocation(line: 10, column: 7, scope: !10, inlinedAt: !8)
