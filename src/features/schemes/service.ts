import { z } from 'zod';
import { field } from '../../dashboard/answer.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, servicePart } from '../../dashboard/services.ts';
import type { Json } from '../../model/json.ts';
import { PRESETS } from '../../webhooks/networks/presets.ts';
import { namedSchemes } from '../../webhooks/schemes/names.ts';
import { CERTAINTIES, GRADES } from '../../webhooks/schemes/spec.ts';
import { describeSchemes, type SchemeDescription } from './descriptions.ts';
import { editorSchema } from './editor-schema.ts';

const handlerSchema = z
  .object({
    type: z.string(),
    inputs: field.declared().describe('JSON Schema of the inputs.'),
    secretInputs: z.array(z.string()).describe('Inputs that may be env: or file: references; * means any key.'),
  })
  .meta({ id: 'Handler' });

const text = () => z.string().nullable();

const coverageSchema = () => z.object({ body: z.boolean(), timestamp: z.boolean(), id: z.boolean(), url: z.boolean() });

const publisherValue = (description: string) =>
  z
    .object({
      in: z.enum(['header', 'body', 'none']),
      name: text().describe('The header, or the path in the body.'),
      why: text().describe('Why there is none.'),
    })
    .nullable()
    .describe(description);

export const schemeSchema = z
  .object({
    name: z.string(),
    title: text().describe('What the publisher calls itself.'),
    aliases: z.array(z.string()),
    kind: z.enum(['builtIn', 'spec', 'verifier', 'standard', 'custom']),
    headers: z.array(z.string()).describe('Signature headers, the current one first.'),
    algorithm: text(),
    encoding: text(),
    prefix: text(),
    keyEncoding: text(),
    strategy: text(),
    timestamp: z.object({ in: z.string(), name: z.string(), unit: z.string() }).nullable(),
    handshakes: z.array(
      z.object({ name: z.string(), method: z.string(), needsVerification: z.boolean(), bringsKey: z.boolean() }),
    ),
    deliveryIdHeader: text(),
    eventType: publisherValue('Where the kind of an event is; null if the operator does not say.'),
    eventId: publisherValue(
      'Where the id of the event is, or else that of the delivery; null if the operator does not say.',
    ),
    coverage: coverageSchema().nullable().describe('What cannot be changed without breaking the signature.'),
    keyForm: z
      .object({
        prefix: z.string(),
        headers: z.array(z.string()),
        algorithm: z.string(),
        coverage: coverageSchema(),
        grade: z.enum(GRADES).nullable(),
      })
      .nullable()
      .describe('The form for keys that begin with `prefix`; null if the scheme has one form.'),
    certificateOf: text().describe('What the key names if the publisher signs with a certificate of its own.'),
    grade: z.enum(GRADES).nullable().describe('A to F, by what is signed; null if code or the trigger decides.'),
    captured: text().describe('What an attacker can do with a captured delivery.'),
    source: z.string(),
    certainty: z
      .enum(CERTAINTIES)
      .nullable()
      .describe(
        'How the facts are known: by a package or a vector of the publisher, by its documentation, or not at all.',
      ),
    unconfirmed: text().describe('Which facts no source of the publisher confirms; null if all are confirmed.'),
    setUp: z
      .object({
        clickPath: z
          .array(z.string())
          .describe('What to do at the publisher, in Markdown; `{URL}` is the URL of the trigger.'),
        inputs: z.record(z.string(), field.declared()).describe('The `inputs` of a trigger for it; `{URL}` likewise.'),
        retries: z
          .object({
            when: z.string(),
            howOften: z.string(),
            newlySigned: z.boolean().nullable().describe('Whether each retry has a new time and signature.'),
          })
          .nullable()
          .describe('How the publisher retries; null if it never does or does not say.'),
        retriesInWords: z
          .string()
          .describe('The same in Markdown, or that it never does or does not say; with where that was read, and when.'),
        presets: z.array(z.string()).describe('Lists of its addresses, for `webhookIpAllowListPreset`.'),
      })
      .nullable()
      .describe('How to set up a trigger; null if no publisher belongs to the scheme.'),
  })
  .meta({ id: 'Scheme' });

/** Copied, because the compiler does not accept readonly arrays for the schema's type. */
const copied = ({ clickPath, inputs, presets, ...more }: NonNullable<SchemeDescription['setUp']>) => ({
  ...more,
  clickPath: [...clickPath],
  inputs: { ...inputs } as Record<string, Json>,
  presets: [...presets],
});

/** Lists the names that a manifest can use. */
const handlerAndSchemeRoutes: ApiRoutes = (app, services) => {
  handlerRoute(app, services);
  schemeRoute(app, services);
  schemaRoute(app, services);
};

/** The schema for editors; the page's own editor uses it, too. */
const schemaRoute: ApiRoutes = (app, { handlers, extensions }) => {
  let schema: object | undefined;
  app.get(
    '/flows/api/manifest-schema',
    route('flows', {
      operationId: 'getManifestSchema',
      limit: 'none',
      summary: 'The JSON Schema of manifests, with the step types and schemes of this installation',
      answer: z.record(z.string(), field.declared()),
    }),
    async () => {
      schema ??= editorSchema({
        steps: handlers,
        schemes: namedSchemes(extensions.gates.settings.schemes).flatMap(({ name, aliases }) => [name, ...aliases]),
        presets: PRESETS.map(({ name }) => name),
      });
      return { ...schema };
    },
  );
};

/** The step types that flows can use. */
const handlerRoute: ApiRoutes = (app, services) => {
  const shown = () =>
    services.handlers.map(({ type, inputs, secretInputs }) => ({
      type,
      // What JSON Schema cannot express, such as a transform, is shown as any value.
      inputs: z.toJSONSchema(inputs, { io: 'input', unrepresentable: 'any' }),
      secretInputs: [...secretInputs],
    }));
  let handlers: ReturnType<typeof shown> | undefined;

  app.get(
    '/flows/api/handlers',
    route('flows', {
      operationId: 'listHandlers',
      limit: 'none',
      summary: 'Step types and their inputs',
      answer: z.array(handlerSchema),
    }),
    async () => {
      handlers ??= shown();
      return handlers;
    },
  );
};

/** The signature schemes that webhook triggers can name. */
const schemeRoute: ApiRoutes = (app, services) => {
  const shown = () =>
    describeSchemes(services.extensions.gates.settings.schemes).map((scheme) => ({
      ...scheme,
      aliases: [...scheme.aliases],
      headers: [...scheme.headers],
      handshakes: [...scheme.handshakes],
      keyForm: scheme.keyForm === null ? null : { ...scheme.keyForm, headers: [...scheme.keyForm.headers] },
      setUp: scheme.setUp === null ? null : copied(scheme.setUp),
    }));
  let schemes: ReturnType<typeof shown> | undefined;

  app.get(
    '/flows/api/schemes',
    route('deliveries', {
      operationId: 'listSchemes',
      limit: 'none',
      summary: 'Signature schemes',
      answer: z.array(schemeSchema),
    }),
    async () => {
      schemes ??= shown();
      return schemes;
    },
  );
};

export const schemes = servicePart({ name: 'schemes', routes: [handlerAndSchemeRoutes] });
