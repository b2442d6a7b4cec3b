import pino from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { StoreUnavailableError, UnfitClockError } from '../../src/errors.ts';
import { limitFaults } from '../../src/telemetry/service-log.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function open() {
  const lines: { msg: string; [field: string]: unknown }[] = [];
  const { flush, ...hooks } = limitFaults();
  const logger = pino({ level: 'trace', hooks }, { write: (line) => lines.push(JSON.parse(line)) });
  return { lines, logger, flush };
}

const full = () => new StoreUnavailableError('database or disk is full', { cause: { code: 'SQLITE_FULL' } });

it('writes the first line of a cause with its stack, then one a minute with a count, whatever failed because of it', () => {
  const { lines, logger } = open();
  for (let n = 0; n < 500; n += 1) {
    logger.error({ err: full(), deliveryId: `d${n}` }, 'a delivery could not be stored');
    logger.child({ reqId: n }).warn({ err: full() }, 'the store is unavailable');
  }
  expect(lines).toMatchObject([{ msg: 'a delivery could not be stored', err: { stack: expect.any(String) } }]);
  vi.advanceTimersByTime(60_000);
  expect(lines).toHaveLength(2);
  expect(lines[1]).toMatchObject({
    msg: 'the store is unavailable (999 such lines of one cause)',
    why: 'database or disk is full',
    times: 999,
    lines: { 'a delivery could not be stored': 499, 'the store is unavailable': 500 },
  });
  expect(lines[1]).not.toHaveProperty('err');
  // Whatever continued for a minute adds one more line; once it is over, the next error is logged at once.
  logger.error({ err: full(), deliveryId: 'last' }, 'a delivery could not be stored');
  vi.advanceTimersByTime(60_000);
  expect(lines[2]).toMatchObject({ times: 1, deliveryId: 'last' });
  vi.advanceTimersByTime(60_000);
  logger.error({ err: full() }, 'a delivery could not be stored');
  expect(lines).toHaveLength(4);
});

it('tells causes apart: by what is unavailable, by where an error was thrown, by the name of a cause, by an event', () => {
  const { lines, logger } = open();
  const thrown = [new TypeError('x 1'), new RangeError('x 2')];
  for (let n = 0; n < 3; n += 1) {
    logger.error({ err: full() }, 'it failed');
    logger.error({ err: new StoreUnavailableError('disk I/O error') }, 'it failed');
    for (const err of thrown) logger.error({ err }, 'it failed');
    logger.warn({ cause: 'memory', deliveryId: n }, 'it failed');
    logger.error({ err: full(), eventName: 'WebhookRejectionStoreFailed' }, 'WebhookRejectionStoreFailed');
  }
  expect(lines).toHaveLength(6);
});

it('limits one place that throws, however its messages differ', () => {
  const { lines, logger } = open();
  for (let n = 0; n < 3; n += 1) logger.warn({ err: new Error(`run ${n}`) }, 'it failed');
  expect(lines).toHaveLength(1);
});

it('writes every line that is no fault, or that ends the process', () => {
  const { lines, logger } = open();
  for (let n = 0; n < 2; n += 1) {
    logger.warn({ flowId: n }, 'a deploy was refused');
    logger.info({ err: full() }, 'told');
    logger.debug({ err: full() }, 'told');
    logger.fatal({ err: full() }, 'told');
    logger.error('plain');
    logger.error(new Error('alone'));
  }
  expect(lines).toHaveLength(12);
});

it('leaves it to the store to say that the database is away', () => {
  const { lines, logger } = open();
  const away = new StoreUnavailableError('it is away', { isAway: true });
  for (const err of [away, new UnfitClockError()]) logger.warn({ err }, 'it failed; trying again');
  expect(lines.map(({ level }) => level)).toEqual([20, 20]);
});

it('counts what is left when the process ends', () => {
  const { lines, logger, flush } = open();
  for (let n = 0; n < 3; n += 1) logger.error({ err: full() }, 'it failed');
  flush();
  flush();
  expect(lines.map(({ times }) => times)).toEqual([undefined, 2]);
});

it('forgets the oldest cause where there are too many', () => {
  const { lines, logger } = open();
  for (let n = 0; n <= 500; n += 1) logger.warn({ cause: `c${n}` }, 'it failed');
  logger.warn({ cause: 'c0' }, 'it failed');
  logger.warn({ cause: 'c500' }, 'it failed');
  expect(lines).toHaveLength(502);
});

/** Errors of operators' code that pino cannot write: it marks the errors it writes, and reads all their fields. */
const UNWRITABLE: Readonly<Record<string, () => unknown>> = {
  'is frozen': () => Object.freeze(new Error('boom')),
  'has a cause in a frozen field': () => Object.assign(new Error('boom'), { inner: Object.freeze(new Error('inner')) }),
  'throws when its fields are read': () =>
    Object.defineProperty(new Error('boom'), 'more', { enumerable: true, get: fail }),
};
function fail(): never {
  throw new Error('cannot be read');
}

it.each(Object.entries(UNWRITABLE))('writes the texts of an error that %s, however often it is logged', (_, make) => {
  const { lines, logger } = open();
  logger.error(make());
  logger.info(make());
  for (let n = 0; n < 3; n += 1) logger.warn({ err: make(), n }, 'a step failed');
  vi.advanceTimersByTime(60_000);
  expect(lines.map(({ err, why }) => why ?? (err as { message: string }).message)).toEqual(Array(4).fill('boom'));
  expect(lines[0]).toMatchObject({ msg: 'boom', err: { stack: expect.stringContaining('Error: boom') } });
});

it('never throws, whatever is logged', () => {
  const { lines, logger } = open();
  const proxy = new Proxy(new Error('boom'), { get: fail, getPrototypeOf: fail, ownKeys: fail, has: fail });
  for (const given of [
    proxy,
    { err: proxy },
    {
      get err() {
        return fail();
      },
    },
    Object.defineProperty(new Error(), 'message', { get: fail }),
  ]) {
    logger.error(given);
    logger.error(given, 'with a text');
    logger.info(given);
  }
  vi.advanceTimersByTime(60_000);
  expect(lines.length).toBeGreaterThan(0);
});
