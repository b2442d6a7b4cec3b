import type { RunTrigger } from '../api-types.ts';
import { JsonView } from '../kit/json-view.tsx';
import { Loaded } from '../kit/page.tsx';
import { useResource } from '../resource.ts';

/** What a run was started with. */
export function TriggerPanel({ runId }: { runId: string }) {
  const trigger = useResource<RunTrigger>(`/runs/${runId}/trigger`);
  return (
    <div class="panel-body stack">
      <Loaded of={trigger}>
        {({ triggerBody, triggerHeaders }) => (
          <>
            <h3>Body</h3>
            {triggerBody === null ? (
              <p class="muted">The run was started without a body.</p>
            ) : (
              <JsonView value={triggerBody} label="Body" />
            )}
            {Object.keys(triggerHeaders).length === 0 ? null : (
              <>
                <h3>Headers</h3>
                <JsonView value={triggerHeaders} label="Headers" />
              </>
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}
