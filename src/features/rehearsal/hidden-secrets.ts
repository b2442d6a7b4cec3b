import { formatPath, mapStrings } from '../../expressions/json-path.ts';
import { replaceSecrets } from '../../expressions/template.ts';
import type { HandlerTable } from '../../flows/handlers/index.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import { MASK, maskUrl } from '../../manifest/mask.ts';
import { isReference } from '../../manifest/read-secret.ts';
import { stepSecrets } from '../../manifest/secrets.ts';
import type { Graph, StepDefinition } from '../../model/manifest.ts';

/** Stands for a host that only a secret names; no name of it exists (RFC 6761). */
const SECRET_URL = 'https://secret.invalid/';

/**
 * The flow with a name in the place of each secret of its steps, the same for the same reference: no value is read, and
 * none can be in what a simulation yields.
 */
export function hideSecrets(flow: LoadedFlow, handlers: HandlerTable): LoadedFlow {
  const { manifest } = flow;
  return { ...flow, manifest: { ...manifest, steps: hideInGraph(manifest.steps, handlers) } };
}

function hideInGraph(graph: Graph, handlers: HandlerTable): Graph {
  return Object.fromEntries(Object.entries(graph).map(([key, step]) => [key, hideInStep(step, handlers)]));
}

function hideInStep(step: StepDefinition, handlers: HandlerTable): StepDefinition {
  const { inputs, type, steps } = step;
  const hidden = new Map(
    stepSecrets(inputs, handlers.get(type)?.secretInputs ?? [])
      .filter(({ isPart }) => isPart !== true)
      .map(({ path, text }) => [formatPath(path), path.at(-1) === 'url' ? hiddenUrl(text) : hiddenText(text)]),
  );
  return {
    ...step,
    inputs: mapStrings(inputs, (text, path) => hidden.get(formatPath(path)) ?? replaceSecrets(text, hiddenText)),
    ...(steps !== undefined && { steps: hideInGraph(steps, handlers) }),
  };
}

function hiddenText(text: string): string {
  return isReference(text) ? `[secret ${text}]` : '[secret]';
}

/** One that the step can call. */
function hiddenUrl(text: string): string {
  if (isReference(text)) return `${SECRET_URL}${encodeURIComponent(text)}`;
  return maskUrl(text).replaceAll(MASK, 'secret');
}

/** Whether a text names a secret in its place. */
export function isHidden(text: string): boolean {
  return /^\[secret(?: (?:env|file):.*)?\]$/is.test(text);
}

/** A URL as it is shown: what only a secret says by its name. */
export function shownUrl(url: string): string {
  if (!url.startsWith(SECRET_URL)) return url;
  const [, reference = '', rest = ''] = /^([^?]*)(.*)$/s.exec(url.slice(SECRET_URL.length)) ?? [];
  return `[secret ${decodeURIComponent(reference)}]${rest}`;
}
