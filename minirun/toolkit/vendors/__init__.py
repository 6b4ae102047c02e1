"""What the drivers of other vendors show in /sys, and the nodes of their GPUs.

What becomes of it: minirun.gpu.vendors.

amd       AMD
intel     Intel
gaudi     Intel Gaudi
sysfs     what they share
"""
