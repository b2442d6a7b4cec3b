import { printableLines } from '../model/text.ts';

/** Writes lines to the terminal. Parts come from senders and deploys: they cannot control the terminal. */
export function print(text: string): void {
  process.stdout.write(printableLines(text));
}

/** Like `print`, for everything but the result: messages, progress and errors. */
export function printError(text: string): void {
  process.stderr.write(printableLines(text));
}
