import type { ExpressionContext } from '../expressions/context.ts';
import { ExpressionError } from '../expressions/errors.ts';
import { formatPath } from '../expressions/json-path.ts';
import { type CompiledTemplate, compileTemplate } from '../expressions/template.ts';
import { isMasked } from '../manifest/mask-url.ts';
import type { SecretReader } from '../manifest/read-secret.ts';
import { resolveStepSecrets, stepSecrets } from '../manifest/secrets.ts';
import type { Json, JsonObject } from '../model/json.ts';
import { MAX_INPUT_BYTES } from '../model/run.ts';
import type { Claim } from '../store/store.ts';
import { expressionContext } from './expression-context.ts';
import { freezeJson } from './freeze-json.ts';
import type { StepHandler } from './handlers/handler.ts';
import { problemOfJson } from './non-json.ts';
import type { ReadRunInput } from './run-input.ts';
import { StepFailure } from './step-failure.ts';

export interface ResolvedInputs {
  /** Frozen: it is recorded, and may be shared by every run, so no handler may change it. */
  readonly value: Json;
  /** What is masked in everything that is recorded. */
  readonly secrets: readonly string[];
}

export interface InputRequest {
  /** As the manifest has them. */
  readonly written: JsonObject;
  readonly handler: StepHandler;
  readonly readSecret: SecretReader;
  /** Called only where an expression needs it, with all that the expressions read. */
  readonly readRunInput: ReadRunInput;
  /** Where the step stands: its scope and the item of its loop. */
  readonly claim: Pick<Claim, 'stepKey' | 'loop'>;
}

/** Renders the expressions of a step's inputs and puts its secrets in. Throws `StepFailure`, and what the store throws. */
export async function resolveInputs({
  written,
  handler,
  readSecret,
  readRunInput,
  claim,
}: InputRequest): Promise<ResolvedInputs> {
  const rendered = await render(written, readRunInput, claim);
  const { secretInputs } = handler;
  const secrets = secretInputs.length === 0 ? [] : stepSecrets(written, secretInputs);
  if (secrets.length === 0) return { value: rendered, secrets: [] };
  const lost = secrets.find(({ text }) => isMasked(text));
  if (lost !== undefined) {
    // A stored revision keeps references to secrets and no secret that was written out.
    throw new StepFailure(
      'secret_not_kept',
      `${formatPath(['inputs', ...lost.path])} was written out in a manifest that is no longer loaded, and is not kept; ` +
        'load the manifest again, or name the secret by env:NAME or file:PATH',
    );
  }
  const resolved = resolveStepSecrets({ written, rendered, secretInputs, readSecret });
  if ('error' in resolved) throw new StepFailure('secret_unavailable', resolved.error, true);
  return { value: freezeJson(resolved.inputs), secrets: resolved.secrets };
}

// The inputs of a revision never change, so their template is compiled once and goes with them.
const templates = new WeakMap<
  JsonObject,
  { readonly template: CompiledTemplate; readonly constant: Json | undefined }
>();
const NO_CONTEXT: ExpressionContext = { trigger: { body: null, headers: {}, key: '' }, steps: {} };

async function render(written: JsonObject, readRunInput: ReadRunInput, claim: InputRequest['claim']): Promise<Json> {
  const { template, constant } = templateOf(written);
  if (constant !== undefined) return constant;
  const { roots, references } = template;
  const context = roots.size === 0 ? NO_CONTEXT : expressionContext(await readRunInput(references), claim);
  return renderIn(context, template);
}

function templateOf(written: JsonObject) {
  const known = templates.get(written);
  if (known !== undefined) return known;
  const template = compileTemplate(written);
  const made = { template, constant: template.isConstant ? freezeJson(template.render(NO_CONTEXT)) : undefined };
  templates.set(written, made);
  return made;
}

function renderIn(context: ExpressionContext, template: CompiledTemplate): Json {
  let value: Json;
  try {
    value = template.render(context);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    const path = formatPath(['inputs', ...(error.problem.path ?? [])]);
    throw new StepFailure('expression_failed', `${path}: ${error.messageWithoutPath}`);
  }
  const problem = problemOfJson(value, 'inputs', MAX_INPUT_BYTES);
  if (problem?.kind === 'tooLarge') throw new StepFailure('input_too_large', `the input ${problem.message}`);
  if (problem !== undefined) throw new StepFailure('expression_failed', problem.message);
  return freezeJson(value);
}
