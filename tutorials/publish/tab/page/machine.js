// The machine that the emulator is: the same for the program that saves its state and for the page.

export const MEMORY = 512 * 1024 * 1024;
export const PART = 256 * 1024;

/** Options of v86. `disk`: of the image that the machine reads. */
export function machine(wasm, disk) {
  return {
    wasm_path: wasm,
    memory_size: MEMORY,
    vga_memory_size: 1024 * 1024,
    hda: { async: true, fixed_chunk_size: PART, ...disk },
    virtio_console: true,
    disable_keyboard: true,
    disable_mouse: true,
    disable_speaker: true,
    autostart: false,
  };
}
