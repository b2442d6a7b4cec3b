import { z } from 'zod';
import { HttpError } from '../errors.ts';
import { CONTENT_MARK } from '../model/text.ts';

const id = () => z.string().meta({ format: 'uuid' });
const time = () => z.string().meta({ format: 'date-time' });
const integer = () => z.number().meta({ type: 'integer' });
/** Any JSON value that a manifest or Sluice itself declares. */
const declared = () => z.unknown().meta({ [CONTENT_MARK]: false });
/** Content from a sender, or a flow's result of it. */
const content = <Type extends z.ZodType>(type: Type): Type => type.meta({ [CONTENT_MARK]: true });
/** Any JSON value with such content. */
const json = () => content(z.unknown());

/** The kinds of fields in answers. */
export const field = { id, time, integer, declared, content, json };

export const isoTime = (ms: number) => new Date(ms).toISOString();
export const isoTimeOrNull = (ms: number | null) => (ms === null ? null : isoTime(ms));

/** A list as a bare array, or as one page of it with `includeTotal=true`. */
export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.union([
    z.array(item),
    z.object({
      items: z.array(item),
      total: integer(),
      skip: integer(),
      take: integer(),
      searchedUntil: time().optional().describe('Where a bounded search stopped; absent where all was searched.'),
    }),
  ]);

interface Paging {
  readonly skip: number;
  readonly take: number;
  readonly includeTotal: boolean;
}

export function toList<Item>(
  items: Item[],
  { total, searchedUntil }: { total: number | undefined; searchedUntil?: number },
  { skip, take, includeTotal }: Paging,
) {
  const bound = searchedUntil === undefined ? {} : { searchedUntil: isoTime(searchedUntil) };
  return includeTotal ? { items, total: total ?? 0, skip, take, ...bound } : items;
}

/** Fastify's own shape plus the reason. */
export const errorSchema = z
  .object({ statusCode: integer(), error: z.string(), message: z.string(), reason: z.string().optional() })
  .meta({ id: 'Error' });

/** The answer of a command without a result. */
export const outcomeSchema = z.object({ success: z.boolean(), message: z.string() });

export const unknownId = (kind: 'delivery' | 'flow' | 'run', id: string) =>
  new HttpError(`unknown_${kind}`, `There is no ${kind} with the id ${id}`);

export const unknownSchedule = (jobId: string) =>
  new HttpError('unknown_schedule', `There is no schedule with the id ${JSON.stringify(jobId)}`);

export const unknownConsumer = (name: string) =>
  new HttpError('unknown_consumer', `There is no consumer ${JSON.stringify(name)}`);

export const builtInFlow = () =>
  new HttpError('built_in_flow', 'Sluice tells of alerts with this flow; it cannot be run, closed or replaced');
export const flowUnreadable = (why: string) => new HttpError('flow_unreadable', `The flow cannot be read: ${why}`);
export const flowDisabled = () => new HttpError('flow_disabled', 'The flow is disabled; enable it first');
