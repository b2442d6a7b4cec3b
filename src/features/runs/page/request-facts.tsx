import type { Api } from '../../../dashboard/web/api-types.ts';
import { JsonView } from '../../../dashboard/web/kit/json-view.tsx';

const part = (value: unknown, name: string): unknown => Reflect.get(Object(value), name);
const textOf = (value: unknown, otherwise = ''): string => (typeof value === 'string' ? value : otherwise);

/** The request of an HttpRequest step and the response to it: the values that readers look for first. */
export function RequestFacts({ step: { stepType, input, output } }: { step: Api['Step'] }) {
  const url = textOf(part(input, 'url'));
  if (stepType !== 'HttpRequest' || url === '') return null;
  const status = part(output, 'status');
  const body = part(output, 'body');
  return (
    <section class="request">
      <h3>Request</h3>
      <p class="break">
        <code>{`${textOf(part(input, 'method'), 'GET').toUpperCase()} ${url}`}</code>
      </p>
      {typeof status !== 'number' ? null : (
        <>
          <h3>
            Response <span class={status < 400 ? '' : 'bad-text'}>{status}</span>
          </h3>
          {body === null || body === undefined ? (
            <p class="muted">Without a body.</p>
          ) : (
            <JsonView value={body} label="Response body" />
          )}
        </>
      )}
    </section>
  );
}
