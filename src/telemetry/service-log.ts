import pino, { type LevelWithSilent, type Logger, type LoggerOptions } from 'pino';
import { writable } from '../model/error-kind.ts';
import { printableLines } from '../model/text.ts';
import { readableLine } from './readable-log.ts';
import { limitRepeats } from './repeats.ts';
import { createTurnLines } from './turn-lines.ts';

/**
 * At a terminal, readable lines. Otherwise JSON, written in the background and several lines at a time: logging must
 * not delay a delivery. Repetitions of one cause are limited.
 */
export function createLogger(level: LevelWithSilent): Logger {
  const { stdout } = process;
  const hooks = limitFaults();
  process.on('exit', hooks.flush);
  if (stdout.isTTY) {
    const hasColors = stdout.hasColors();
    const write = (line: string) => void stdout.write(readableLine(line, { hasColors }));
    return pino({ level, hooks }, { write });
  }
  const destination = pino.destination({ dest: 1, sync: false });
  // Readers of a container's log may use a terminal too: escapes control characters, which does not change the JSON.
  const lines = createTurnLines((text) => void destination.write(printableLines(text)));
  process.on('exit', () => {
    try {
      lines.flush();
      destination.flushSync();
    } catch {
      // The log has no reader any more, so the error has no place to go.
    }
  });
  return pino({ level, hooks }, lines);
}

/** Pino's hooks that limit warnings and errors; others are requested one by one, and a fatal one ends the process. */
export function limitFaults(): Required<Pick<NonNullable<LoggerOptions['hooks']>, 'logMethod'>> & { flush(): void } {
  const { log, flush } = limitRepeats();
  return {
    logMethod(args, write, level) {
      try {
        if (level === 40 || level === 50) log(this, args, write);
        else write.apply(this, args);
      } catch {
        // Operators' code can throw an error that is frozen, or that throws when it is read.
        log(this, [{ err: writable(args[0]) }, ...args.slice(1)] as never, write);
      }
    },
    flush,
  };
}
