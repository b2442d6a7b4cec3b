declare module '@11ty/eleventy' {
  /** The part of the generator that is used here. */
  export class Eleventy {
    constructor(input: string, output: string, options: { quietMode: boolean; config(configuration: never): void });
    write(): Promise<void>;
  }
}
