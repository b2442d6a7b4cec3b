import { useEffect, useState } from 'preact/hooks';
import type { Dagre } from './layout.ts';

let loading: Promise<Dagre> | undefined;

/** dagre, once it is there: it is fetched by the first graph that is drawn, for it is larger than any page. */
export function useDagre(): { dagre: Dagre | undefined; error: unknown } {
  const [state, setState] = useState<{ dagre: Dagre | undefined; error: unknown }>({
    dagre: undefined,
    error: undefined,
  });
  useEffect(() => {
    let isShown = true;
    loading ??= import('@dagrejs/dagre').then(({ Graph, layout }): Dagre => ({ Graph, layout }));
    loading.then(
      (dagre) => isShown && setState({ dagre, error: undefined }),
      (error: unknown) => {
        loading = undefined;
        if (isShown) setState({ dagre: undefined, error });
      },
    );
    return () => {
      isShown = false;
    };
  }, []);
  return state;
}
