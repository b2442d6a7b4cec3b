declare module '@11ty/eleventy' {
  /** As much of the generator as is used here. */
  export class Eleventy {
    constructor(input: string, output: string, options: { quietMode: boolean; config(configuration: never): void });
    write(): Promise<void>;
  }
}
