"""
Runs on a cluster
=================

``posenc run`` executes runs on this machine. With ``--on`` SLURM or Ray executes them on theirs; studies, tables and
pages stay the same. This page is a record: the commands ran on two nodes of one machine ("A run on a cluster" has all
of them), and the last picture is drawn from stored measurements.
"""

# %%
# Look before anything is queued. A wrong partition is refused, and ``--dry-run`` prints the runs and asks the nodes
# whether they can execute them:
#
# .. code-block:: console
#
#   $ posenc run latin-squares --panels accuracy --schemes 2d-fixed rope --seeds 0 1 --set epochs=1 --on slurm=gpu --out
#   slurm
#   posenc: SLURM has no partition 'gpu'. It has two: --on slurm=two
#
#   $ posenc run latin-squares --panels accuracy --schemes 2d-fixed rope --seeds 0 1 --set epochs=1 --on slurm=two --out
#   slurm --dry-run
#   4 runs of latin-squares, 0 finished, results in slurm.
#   Changed from the preset: epochs 60 → 1.
#   To execute: 4 runs, about 3 min as busy as the processors are now (8 s if they were free), about 1.0 GiB of memory,
#   2 at a time.
#     2d-fixed: seeds 0 1
#     rope: seeds 0 1
#   SLURM's free nodes can execute the runs: n1, n2.
#   Nothing was started.
#
# Then run it. The command waits for its jobs; it may be closed, and given again:
#
# .. code-block:: console
#
#   $ posenc run latin-squares --panels accuracy --schemes 2d-fixed rope --seeds 0 1 --set epochs=1 --on slurm=two
#   --runs-per-job 1 --out slurm
#   4 runs to execute, 0 finished before; SLURM, partition two, up to 60 min each.
#   [1/4] 2d-fixed seed 1: accuracy_iid 0.277, accuracy_ood 0.307, accuracy_train 0.264
#   [2/4] 2d-fixed seed 0: accuracy_iid 0.259, accuracy_ood 0.213, accuracy_train 0.266
#   [3/4] rope seed 0: accuracy_iid 0.280, accuracy_ood 0.287, accuracy_train 0.258
#   [4/4] rope seed 1: accuracy_iid 0.270, accuracy_ood 0.310, accuracy_train 0.283
#   4 done, 0 done before.
#
# The same on Ray, whose nodes need no common disk. The tables of both are equal:
#
# .. code-block:: console
#
#   $ posenc run latin-squares --panels accuracy --schemes 2d-fixed rope --seeds 0 1 --set epochs=1 --on ray=head:6379
#   --out ray
#   4 runs to execute, 0 finished before; the Ray cluster at head:6379.
#   [1/4] 2d-fixed seed 0: accuracy_iid 0.259, accuracy_ood 0.213, accuracy_train 0.266
#   [2/4] 2d-fixed seed 1: accuracy_iid 0.277, accuracy_ood 0.307, accuracy_train 0.264
#   [3/4] rope seed 0: accuracy_iid 0.280, accuracy_ood 0.287, accuracy_train 0.258
#   [4/4] rope seed 1: accuracy_iid 0.270, accuracy_ood 0.310, accuracy_train 0.283
#   4 done, 0 done before.
#   posenc results --format csv: 49 lines of slurm and of ray, equal

# %%
# When does a cluster pay? An engine takes time to start, and each run costs some beside its training. These are
# measured times of runs that do nothing, on two cores with other load (``results/engine-overhead-cpu.json`` of the
# repository).
import matplotlib.pyplot as plt

measured = {  # engine: seconds until the first run starts, seconds per run after that
    "this process": (0.0486, 0.0972),
    "local, 2 workers": (9.037, 0.0731),
    "private Ray, 2 CPUs": (20.7574, 0.0697),
    "SLURM, 20 runs a job": (8.8387, 0.145),
    "SLURM, 1 run a job": (11.5167, 2.1076),
}
figure, axes = plt.subplots(1, 2, figsize=(10, 2.8), layout="constrained", sharey=True)
for axis, column, title in ((axes[0], 0, "Until the first run starts"), (axes[1], 1, "Then, for each run")):
    bars = axis.barh(list(measured), [times[column] for times in measured.values()])
    axis.bar_label(bars, fmt="%.2f", padding=3)
    axis.set(title=title, xlabel="time (s)")
    axis.margins(x=0.2)
axes[0].invert_yaxis()
plt.show()

# %%
# Short runs belong into one job: ``--runs-per-job``. "Clusters" has the engines' options, what happens when a node
# dies, and what was not tried.
