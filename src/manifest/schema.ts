import { randomUUID } from 'node:crypto';
import { CronPattern } from 'croner';
import { z } from 'zod';
import type { Json, JsonObject } from '../model/json.ts';
import {
  END_STATUSES,
  type Graph,
  GUID,
  type RetryPolicy,
  type RunnableManifest,
  type StepDefinition,
  TRIGGER_TYPES,
  type TriggerType,
} from '../model/manifest.ts';
import { anyCase } from './fields/values.ts';
import { MANIFEST_FIELDS } from './manifest-fields.ts';
import { type ObjectsOfTrigger, TRIGGER_OBJECTS, type WebhookInputs, webhookInputsSchema } from './webhook-fields.ts';

// setTimeout accepts at most 2^31 - 1 milliseconds and fires at once beyond.
const MAX_TIMEOUT_SECONDS = 2_147_483;

/** A flow id: lower-case, whatever case it is written in. */
const guid = z
  .string({ error: ({ input }) => (input === undefined ? `is missing; ${freshId()}` : undefined) })
  .regex(GUID, { error: () => `is not a GUID; ${freshId()}` })
  .transform((text) => text.toLowerCase());

/** For an author to paste; a deployed flow already has its id. */
export function freshId(): string {
  return `a new flow may take "${randomUUID()}"`;
}

const jsonObject = z.record(z.string(), z.unknown() as z.ZodType<Json>);

const triggerTypeSchema = anyCase(TRIGGER_TYPES);

const cronInputsSchema = z.strictObject({
  cronExpression: z.string().superRefine(refuseBadCron).describe('Five fields, or six with seconds first.'),
  timeZone: z
    .string()
    .refine(isTimeZone, { error: 'is not an IANA time zone, such as Europe/Berlin' })
    .default('UTC')
    .describe('IANA time zone.'),
  onMissed: anyCase(['fireOnce', 'skip'])
    .optional()
    .describe('What happens to ticks that were missed while the service was down; fireOnce by default.'),
});

/** Inputs of each type of trigger. */
const triggerInputsSchemas = {
  manual: jsonObject,
  cron: cronInputsSchema,
  webhook: webhookInputsSchema,
} satisfies Record<TriggerType, z.ZodType>;

const statusSchema = anyCase(END_STATUSES, (input) =>
  typeof input === 'string' && /^(pending|running)$/i.test(input)
    ? `is ${input}: a step that runs after another waits for its end, so only ${END_STATUSES.join(', ')} are accepted`
    : undefined,
);

const statusesSchema = z
  .array(statusSchema)
  .min(1)
  .transform((statuses) => [...new Set(statuses)]);

const edgeSchema = z.union([
  statusesSchema.transform((statuses) => ({ statuses })),
  z.strictObject({
    statuses: statusesSchema.default(['Succeeded']).describe('Statuses that satisfy the edge; Succeeded by default.'),
    when: z.string().optional().describe('A CEL expression; false skips the step.'),
  }),
]);

const retrySchema = z.strictObject({
  maxAttempts: z.int().min(1).default(1).describe('Number of attempts, including the first.'),
  backoffSeconds: z.number().min(0).default(1).describe('Delay before the second attempt.'),
  factor: z.number().min(1).default(2).describe('Factor by which each further delay grows.'),
  maxBackoffSeconds: z.number().min(0).default(300).describe('Longest delay.'),
  jitter: z.boolean().default(true).describe('Varies each delay randomly, so that retries do not arrive together.'),
}) satisfies z.ZodType<RetryPolicy>;

/** Limit for flow names and trigger keys: lists, alerts and links show them in full. */
export const MAX_NAME = 120;

/** A generated name, cut to the limit. */
export const asName = (text: string) => text.slice(0, MAX_NAME).replace(/\p{Surrogate}$/u, '');

export const STEP_KEY = /^[A-Za-z0-9_-]{1,64}$/;

const concurrency = z.int().min(1).max(10_000);
const timeoutSeconds = z.number().positive().max(MAX_TIMEOUT_SECONDS);

const stepSchema = z
  .strictObject({
    type: z.string().min(1).describe('Step type, exact.'),
    inputs: jsonObject
      .default({})
      .describe('Inputs of the step type. Strings may contain expressions as placeholders.'),
    runAfter: z
      .record(z.string(), edgeSchema)
      .default({})
      .describe('Steps that must end first, with the statuses they must end with.'),
    retry: retrySchema.optional().describe('When and how often a failed attempt is retried.'),
    timeoutSeconds: timeoutSeconds.optional().describe('Time limit of one attempt, including waiting time.'),
    concurrency: concurrency
      .optional()
      .describe(
        'How many steps of this type run at once in all runs of the flow; if several steps set it, the lowest applies.',
      ),
    forEach: (z.unknown() as z.ZodType<Json>)
      .optional()
      .describe('ForEach: an array, or an expression that yields one.'),
    concurrencyLimit: z
      .int()
      .min(1)
      .max(1000)
      .optional()
      .describe('ForEach: iterations that run at once; 1 by default.'),
    get steps(): z.ZodOptional<z.ZodType<Graph>> {
      return z
        .record(z.string(), stepSchema)
        .optional()
        .describe('ForEach: the steps of each iteration.') as z.ZodOptional<z.ZodType<Graph>>;
    },
  })
  .meta({ id: 'step' }) satisfies z.ZodType<StepDefinition>;

const ofFeatures = Object.fromEntries(Object.entries(MANIFEST_FIELDS).map(([name, { schema }]) => [name, schema]));

const headerSchema = z.strictObject({
  $schema: z.string().optional().describe('JSON Schema for editors, such as ./manifest.schema.json.'),
  id: guid.describe('GUID; never changes once deployed.'),
  name: z.string().min(1).max(MAX_NAME).optional().describe('Display name; the file name by default.'),
  version: z.string().min(1).describe('Version label.'),
  timeoutSeconds: timeoutSeconds.optional().describe('Time limit of a run; a run that takes longer ends as TimedOut.'),
  concurrency: concurrency.optional().describe('How many steps of this flow run at once, across all its runs.'),
  pinInputs: z
    .boolean()
    .optional()
    .describe(
      'Runs keep the inputs of the revision that they started with; without it, steps take those of the newest.',
    ),
  ...(ofFeatures as Readonly<Record<never, z.ZodType>>),
});

const enabledSchema = z
  .boolean()
  .describe(
    'false: a webhook answers as that of a disabled flow, a schedule does not fire, and nothing starts it by hand.',
  );

/** The objects of webhook triggers, or those of them that manual triggers can have. */
const objectSchemas = (isManual: boolean) =>
  Object.fromEntries(
    Object.entries(TRIGGER_OBJECTS).flatMap(([name, { schema, isOnManual = false }]) =>
      isManual && !isOnManual ? [] : [[name, schema.optional()]],
    ),
  );

/** The loader parses a file part by part, so that a mistake in one part hides none in another. */
export const MANIFEST_PARTS = {
  header: headerSchema,
  triggerType: triggerTypeSchema,
  triggerInputs: triggerInputsSchemas,
  enabled: enabledSchema,
  edge: edgeSchema,
  step: stepSchema,
} as const;

/** The whole file. */
const manifestSchema = z.strictObject({
  ...headerSchema.shape,
  triggers: z
    .record(
      z.string().max(MAX_NAME),
      z.discriminatedUnion('type', [
        z.strictObject({
          type: z.literal('manual'),
          enabled: enabledSchema.optional(),
          inputs: triggerInputsSchemas.manual.optional(),
          ...objectSchemas(true),
        }),
        z.strictObject({
          type: z.literal('cron'),
          enabled: enabledSchema.optional(),
          inputs: triggerInputsSchemas.cron,
        }),
        z.strictObject({
          type: z.literal('webhook'),
          enabled: enabledSchema.optional(),
          inputs: triggerInputsSchemas.webhook.optional(),
          ...objectSchemas(false),
        }),
      ]),
    )
    .default({})
    .describe('What starts runs of the flow, by key.'),
  steps: z
    .record(z.string().regex(STEP_KEY), stepSchema)
    .default({})
    .describe('Steps by key: 1 to 64 letters, digits, "_" and "-".'),
});

/** One flow as its author wrote it, in canonical spelling. Immutable once loaded. */
export interface Manifest extends RunnableManifest {
  /** Lower-case GUID: the join key of all stored data and routes. */
  readonly id: string;
  readonly name: string;
  /** A label for people; has no effect. */
  readonly version: string;
  /** In manifest order: a delivery to the flow's GUID goes to the first webhook trigger. */
  readonly triggers: Readonly<Record<string, Trigger>>;
}

export type Trigger =
  // A manual trigger has only objects that are `isOnManual`.
  | ({ readonly type: 'manual'; readonly inputs: JsonObject } & Switched & ObjectsOfTrigger)
  | CronTrigger
  | ({ readonly type: 'webhook'; readonly inputs: WebhookInputs } & Switched & ObjectsOfTrigger);

interface Switched {
  /** Absent unless the trigger is switched off. */
  readonly enabled?: false | undefined;
}

export interface CronTrigger extends Switched {
  readonly type: 'cron';
  readonly inputs: Readonly<z.output<typeof cronInputsSchema>>;
}

/** Names of the structural keys, by the object that has them. */
export const STRUCTURAL_KEYS = {
  manifest: Object.keys(manifestSchema.shape),
  trigger: ['type', 'enabled', 'inputs', ...Object.keys(TRIGGER_OBJECTS)],
  cron: Object.keys(cronInputsSchema.shape),
  step: Object.keys(stepSchema.shape),
  edge: Object.keys(edgeSchema.options[1].shape),
  retry: Object.keys(retrySchema.shape),
} as const;

function refuseBadCron(expression: string, context: z.RefinementCtx): void {
  // croner also accepts seven fields and names such as @daily.
  if (!/^\s*\S+(\s+\S+){4,5}\s*$/.test(expression)) {
    context.addIssue({ code: 'custom', message: 'is not a cron expression of 5 or 6 fields, such as 0 2 * * *' });
    return;
  }
  try {
    new CronPattern(expression);
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error);
    context.addIssue({ code: 'custom', message: `is not a cron expression: ${reason}` });
  }
}

function isTimeZone(name: string): boolean {
  // Intl also accepts offsets such as +02:00, which have no daylight saving time.
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** A part of a JSON Schema. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** The manifest's form as JSON Schema (draft 2020-12), in canonical spelling. */
export function manifestJsonSchema(): JsonSchema {
  const schema = z.toJSONSchema(manifestSchema, { target: 'draft-2020-12', io: 'input' });
  // Keywords of VS Code, so that its editor accepts comments and trailing commas too.
  return { title: 'Sluice manifest', allowComments: true, allowTrailingCommas: true, ...schema };
}
