import { formatPath, mapStrings } from '../../expressions/json-path.ts';
import { replaceSecrets } from '../../expressions/template.ts';
import type { HandlerTable } from '../../flows/handlers/index.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import { MASK, maskUrl } from '../../manifest/mask.ts';
import { isReference } from '../../manifest/read-secret.ts';
import { stepSecrets } from '../../manifest/secrets.ts';
import type { Graph, StepDefinition } from '../../model/manifest.ts';

/** Replaces a host that is given only by a secret; the name never resolves (RFC 6761). */
const SECRET_URL = 'https://secret.invalid/';

/**
 * The flow with each secret of its steps replaced by a name, the same for the same reference: no value is read, so a
 * simulation cannot reveal one.
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

/** A hidden URL that the step can still call. */
function hiddenUrl(text: string): string {
  if (isReference(text)) return `${SECRET_URL}${encodeURIComponent(text)}`;
  return maskUrl(text).replaceAll(MASK, 'secret');
}

/** Whether a text is the name that replaces a secret. */
export function isHidden(text: string): boolean {
  return /^\[secret(?: (?:env|file):.*)?\]$/is.test(text);
}

/** The URL as shown: a URL hidden by a secret appears as the secret's name. */
export function shownUrl(url: string): string {
  if (!url.startsWith(SECRET_URL)) return url;
  const [, reference = '', rest = ''] = /^([^?]*)(.*)$/s.exec(url.slice(SECRET_URL.length)) ?? [];
  return `[secret ${decodeURIComponent(reference)}]${rest}`;
}
