"""Figures 1, 2 and 3, drawn as SVG from recordings; networks, from the kernel.

figure_1   which container has which GPU
figure_2   config.json → the arguments of nvidia-container-cli
figure_3   the seven stages, with their times
network    networks, their bridges, cables and containers
labels     where the names of arrows stand
"""
