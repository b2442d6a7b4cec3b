/** The contents of a file. It grows with each write, with zeros in gaps. */
export class Bytes {
  #buffer: Buffer;
  #size: number;

  constructor(bytes: Buffer = Buffer.alloc(0)) {
    this.#buffer = Buffer.from(bytes);
    this.#size = bytes.length;
  }

  get size(): number {
    return this.#size;
  }

  view(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  write(at: number, bytes: Buffer): void {
    this.#reach(at + bytes.length);
    bytes.copy(this.#buffer, at);
  }

  /** Cuts the file, or lengthens it with zeros. */
  cut(size: number): void {
    if (size < this.#size) this.#buffer.fill(0, size, this.#size);
    this.#reach(size);
    this.#size = size;
  }

  #reach(size: number): void {
    if (size > this.#buffer.length) {
      const larger = Buffer.alloc(size * 2);
      this.view().copy(larger);
      this.#buffer = larger;
    }
    this.#size = Math.max(this.#size, size);
  }
}
