import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { actorOf } from '../../dashboard/actors.ts';
import { isoTime } from '../../dashboard/answer.ts';
import type { DashboardServices } from '../../dashboard/services.ts';
import { patternsFor } from '../../dashboard/sight.ts';
import { HttpError } from '../../errors.ts';
import { DAY_MS } from '../../model/clock.ts';

/** A plan of this size has a token of 213 kB, which fits in a body. */
export const MAX_PLANNED = 10_000;

/** The form of a plan's token, limited to the size of the largest. */
export const planToken = z
  .string()
  .max(400_000)
  .optional()
  .describe('The token of the plan to carry out; cannot be combined with a filter.');

/** A planned operation and its targets, which the client carries from the plan to the execution. */
interface Plan {
  /** Identifies the plan: a second execution repeats nothing that the first one did. */
  readonly planId: string;
  /** Time of planning, in milliseconds. */
  readonly at: number;
  /** The filter as requested, for the activity. */
  readonly filter: Readonly<Record<string, string>>;
  readonly ids: readonly string[];
}

/** A request for a plan, or for its execution. */
interface Asked {
  readonly request: FastifyRequest;
  /** The id of the operation. */
  readonly action: string;
}

export interface SealedPlans {
  /** Contains the whole plan, so that any replica can execute it, whatever matches the filter by then. */
  seal(
    plan: { readonly filter: object; readonly ids: readonly string[]; readonly at: number },
    asked: Asked,
  ): Promise<string>;
  /** Throws 400 unless this operation issued it to this sender in the last day. `given` is the rest of the body. */
  open(token: string | undefined, given: Readonly<Record<string, unknown>>, asked: Asked): Promise<Plan>;
}

/** Repeated runs, whose keys make a second execution harmless, are kept for at least a day. */
const MAX_AGE_MS = DAY_MS;

const ID_BYTES = 16;
const headSchema = z.strictObject({
  planId: z.guid(),
  at: z.int().nonnegative(),
  filter: z.record(z.string(), z.string()),
});

/**
 * Plans with a code that only a process on this database can make, bound to the operation and to the proven credential
 * with its limit of flows. The key is in the database, so a plan is valid at every replica and after a restart.
 */
export function createSealedPlans({
  store,
  clock,
  newId,
}: Pick<DashboardServices, 'store' | 'clock' | 'newId'>): SealedPlans {
  let key: Uint8Array | undefined;
  const codeOf = async (text: string, { request, action }: Asked) => {
    key ??= await store.keepSecret({ name: 'plans', secret: randomBytes(32) });
    const bound = JSON.stringify([action, actorOf(request).credential ?? null, patternsFor(request) ?? null]);
    return createHmac('sha256', key).update(`${bound}\n${text}`).digest();
  };
  return {
    async seal({ filter, ids, at }, asked) {
      const given = Object.entries(filter).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, textOf(value)]],
      );
      const head = JSON.stringify({ planId: newId(), at, filter: Object.fromEntries(given) });
      const bytes = Buffer.from(ids.join('').replaceAll('-', ''), 'hex');
      const text = `${Buffer.from(head).toString('base64url')}.${bytes.toString('base64url')}`;
      return `${text}.${(await codeOf(text, asked)).toString('base64url')}`;
    },
    async open(token, given, asked) {
      if (token === undefined)
        throw new HttpError('invalid_request', 'body.token: is missing; ask for a plan first and send its token');
      const filtered = Object.keys(given).find((name) => given[name] !== undefined);
      if (filtered !== undefined) {
        throw new HttpError(
          'invalid_request',
          `body.${filtered}: the token already contains the filter; leave this out`,
        );
      }
      const [head = '', ids = '', code = ''] = token.split('.');
      const expected = await codeOf(`${head}.${ids}`, asked);
      const found = Buffer.from(code, 'base64url');
      const isOurs = found.length === expected.length && timingSafeEqual(found, expected);
      if (!isOurs || token !== `${head}.${ids}.${code}`) {
        throw new HttpError(
          'invalid_request',
          'body.token: is not the token of a plan that you asked for here; ask for a plan first',
        );
      }
      const plan = headSchema.parse(JSON.parse(Buffer.from(head, 'base64url').toString()));
      if (clock.now() - plan.at > MAX_AGE_MS) {
        throw new HttpError('invalid_request', 'body.token: the plan is older than a day; ask for a new one');
      }
      return { ...plan, ids: idsIn(Buffer.from(ids, 'base64url')) };
    },
  };
}

/** As requested: times are the only numbers, search keys the only objects. */
function textOf(value: unknown): string {
  if (typeof value === 'number') return isoTime(value);
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map((key) => key.join(':'))
    .join();
}

function idsIn(bytes: Buffer): string[] {
  return Array.from({ length: bytes.length / ID_BYTES }, (_, index) => {
    const hex = bytes.toString('hex', index * ID_BYTES, (index + 1) * ID_BYTES);
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  });
}
