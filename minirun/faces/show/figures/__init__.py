"""Figures 1 to 4, drawn as SVG from recordings; networks, from the kernel.

figure_1   which container has which GPU
figure_2   config.json → the arguments of nvidia-container-cli
figure_3   the seven stages, with their times
figure_4   Figure 3 in 2026: who does what if the GPUs come by CDI
network    networks, their bridges, cables and containers
labels     where the names of arrows stand
"""
