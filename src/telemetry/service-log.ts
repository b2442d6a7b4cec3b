import pino, { type LevelWithSilent, type Logger, type LoggerOptions } from 'pino';
import { writable } from '../model/error-kind.ts';
import { printableLines } from '../model/text.ts';
import { readableLine } from './readable-log.ts';
import { limitRepeats } from './repeats.ts';

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

/** Passes on lines of the log in turns of the event loop. */
interface TurnLines {
  write(line: string): void;
  /** Passes on the held lines. */
  flush(): void;
}

/**
 * Passes on the first line of a turn at once, so that it is out whatever the turn does next; later lines follow
 * together at the turn's end. Under load a turn has dozens, and passing them on one by one cost twice as much.
 */
export function createTurnLines(handOn: (lines: string) => void): TurnLines {
  /** The lines after the first of this turn; undefined in a turn without lines. */
  let held: string[] | undefined;
  const flush = () => {
    const lines = held?.join('') ?? '';
    held = undefined;
    if (lines !== '') handOn(lines);
  };
  return {
    write(line) {
      if (held !== undefined) {
        held.push(line);
        return;
      }
      held = [];
      setImmediate(flush);
      handOn(line);
    },
    flush,
  };
}
