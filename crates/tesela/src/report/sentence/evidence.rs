//! What is said of measured use, of servers that reserve memory, and of several snapshots.

use super::Form;

#[rustfmt::skip]
pub(super) const FORMS: &[Form] = &[
    // Servers that reserve memory.
    ("", "{server:server}, so its need stays unknown and it keeps what it holds; one model is spread over {n:n} GPUs, which never goes to MIG (a pod asks for {pod:n} only)", "{server}, así que no se sabe qué necesita y conserva lo que ocupa; un modelo se reparte sobre {n} GPU, y eso nunca va a MIG (un pod pide solo {pod})"),
    ("", "{server:server}, so its need stays unknown and it keeps what it holds; one model is spread over {n:n} GPUs, which never goes to MIG", "{server}, así que no se sabe qué necesita y conserva lo que ocupa; un modelo se reparte sobre {n} GPU, y eso nunca va a MIG"),
    ("", "{server:server}, so its need stays unknown and it keeps what it holds", "{server}, así que no se sabe qué necesita y conserva lo que ocupa"),
    ("server", "{takes:takes} before it needs it; the {peak:word} that were measured are that reservation and no need", "{takes} antes de necesitarla; los {peak} medidos son esa reserva y no una necesidad"),
    ("server", "{takes:takes} before it needs it", "{takes} antes de necesitarla"),
    ("takes", "{program} was told to take {p:decimal} % of each GPU's memory", "{program} tiene orden de tomar el {p} % de la memoria de cada GPU"),
    ("takes", "{program} takes about nine tenths of the GPU by default", "{program} toma por omisión unas nueve décimas partes de la GPU"),
    ("takes", "{program} takes most of the GPU by default", "{program} toma por omisión la mayor parte de la GPU"),
    ("takes", "{program} takes nearly all of the GPU by default", "{program} toma por omisión casi toda la GPU"),
    ("takes", "{program} takes three quarters of the GPU by default", "{program} toma por omisión tres cuartas partes de la GPU"),
    ("takes", "{program} takes a pool whose size its backend sets", "{program} toma una reserva cuyo tamaño fija su backend"),
    ("", "tesela estimate{flags} (put in {missing}, which its arguments do not say); write the answer as gpuMemory into a Demand and plan again", "tesela estimate{flags} (ponga {missing}, que sus argumentos no dicen); escriba la respuesta como gpuMemory en un Demand y planifique de nuevo"),
    ("", "tesela estimate (put in {missing}, which its arguments do not say); write the answer as gpuMemory into a Demand and plan again", "tesela estimate (ponga {missing}, que sus argumentos no dicen); escriba la respuesta como gpuMemory en un Demand y planifique de nuevo"),
    ("", "tesela estimate{flags}; write the answer as gpuMemory into a Demand and plan again", "tesela estimate{flags}; escriba la respuesta como gpuMemory en un Demand y planifique de nuevo"),

    // Measured use.
    ("", "holds {devices:devices} and worked at most 1 % of the time in the {span:span} that were measured", "ocupa {devices} y trabajó como mucho el 1 % del tiempo en lo medido ({span})"),
    ("", "ask its owner whether it is still needed; else let the plan give it a share", "pregunte a su dueño si todavía hace falta; si no, deje que el plan le dé una parte"),
    ("", "{what:what_shared}: the exporter tells what the device does and not which container did it. Its figures bound the sum of all pods on a device (at most {most:word}, on {gpu:word} of {node:word}) and are nobody's need", "{what}: el exporter dice qué hace el dispositivo y no qué contenedor lo hizo. Sus cifras acotan la suma de todos los pods de un dispositivo (como mucho {most}, en {gpu} de {node}) y no son la necesidad de nadie"),
    ("", "{what:what_shared}: the exporter tells what the device does and not which container did it. Its figures bound the sum of all pods on a device and are nobody's need", "{what}: el exporter dice qué hace el dispositivo y no qué contenedor lo hizo. Sus cifras acotan la suma de todos los pods de un dispositivo y no son la necesidad de nadie"),
    ("what_shared", "{n:n} series of pods that share their device are left out", "se dejan fuera {n} series de pods que comparten su dispositivo"),
    ("what_shared", "{d:devices} [is|are] shared by pods", "con {d} que comparten varios pods"),
    ("", "measure such a pod alone on a device for a day, or write its gpuMemory into a Demand", "mida un pod así él solo en un dispositivo durante un día, o escriba su gpuMemory en un Demand"),
    ("", "{d:devices} [is|are] in the answer without a pod's name; whose use that is is not known, unless one workload holds a whole node", "en la respuesta, sin nombre de pod: {d}; no se sabe de quién es ese uso, salvo que una sola carga ocupe un nodo entero"),
    ("", "let the exporter map pods (DCGM_EXPORTER_KUBERNETES=true), and keep pod and namespace in the query", "haga que el exporter asigne los pods (DCGM_EXPORTER_KUBERNETES=true) y conserve pod y namespace en la consulta"),
    ("", "{pods:pods} of the answer [holds|hold] no GPU in the cluster's JSON (ended, replaced, or of another cluster) and [is|are] left out: {names:names}; {n:n} series of pods on nodes that the input lacks", "{pods} de la respuesta sin GPU en el JSON del clúster (terminados, sustituidos o de otro clúster), que se dejan fuera: {names}; {n} series de pods en nodos que faltan en la entrada"),
    ("", "{pods:pods} of the answer [holds|hold] no GPU in the cluster's JSON (ended, replaced, or of another cluster) and [is|are] left out: ; {n:n} series of pods on nodes that the input lacks", "{pods} de la respuesta sin GPU en el JSON del clúster (terminados, sustituidos o de otro clúster), que se dejan fuera; {n} series de pods en nodos que faltan en la entrada"),
    ("", "{pods:pods} of the answer [holds|hold] no GPU in the cluster's JSON (ended, replaced, or of another cluster) and [is|are] left out: {names:names}", "{pods} de la respuesta sin GPU en el JSON del clúster (terminados, sustituidos o de otro clúster), que se dejan fuera: {names}"),
    ("", "give kubectl snapshots of the same days too: tesela plan monday.json tuesday.json --usage …", "dé también instantáneas de kubectl de los mismos días: tesela plan lunes.json martes.json --usage …"),
    ("", "no use was measured of {n:n} of {w:workloads} that run: {names:names}", "no se midió ningún uso de {n} de {w} en marcha: {names}"),
    ("", "look whether the exporter runs on their nodes, and whether the query keeps their namespaces", "mire si el exporter está en sus nodos y si la consulta conserva sus espacios de nombres"),
    ("", "measured use", "uso medido"),
    ("", "use measured for less than a day", "uso medido durante menos de un día"),
    ("", "{what:basis}; from fewer than {n:n} samples, duty is not taken below {p:decimal} % ({few:n} of them)", "{what}; con menos de {n} muestras, el duty no se toma por debajo del {p} % ({few} de ellas)"),
    ("", "{what:basis}", "{what}"),
    ("basis", "of {w:workloads} over {over:spans}: memory is the peak of all pods and {p:n} % (at least {least:word}), no more than the device has; duty is the mean of the busiest pod, as on the product where it ran", "de {w} durante {over}: la memoria es el pico de todos los pods y un {p} % más (al menos {least}), sin pasar de lo que tiene el dispositivo; el duty es la media del pod más ocupado, como en el producto donde se ejecutó"),
    ("", "a peak beyond these days ends in a pod that runs out of memory on its instance: a Demand with the gpuMemory you know wins over what was measured", "un pico fuera de estos días acaba en un pod que se queda sin memoria en su instancia: un Demand con la gpuMemory que usted conoce manda sobre lo medido"),
    ("", "what peaks at another hour or day needs more than this, and runs out of memory on its instance: measure a week (tesela plan --print-usage-query) before you carry this out", "lo que tiene su pico a otra hora u otro día necesita más que esto y se queda sin memoria en su instancia: mida una semana (tesela plan --print-usage-query) antes de llevarlo a cabo"),
    ("spans", "{a:span} to {b:span}", "{a} a {b}"),
    ("spans", "{a:span}", "{a}"),
    ("span", "one instant", "un instante"),
    ("span", "1 minute", "1 minuto"),
    ("span", "{n:n} minutes", "{n} minutos"),
    ("span", "1 hour", "1 hora"),
    ("span", "{n:n} hours", "{n} horas"),
    ("span", "1 day", "1 día"),
    ("span", "{n:n} days", "{n} días"),

    // Joint activity.
    ("", "joint activity", "actividad conjunta"),
    ("", "of {w:workloads} over {n:n} windows of {s:n} s: any pods that may meet on a shared device work more than {c:n} at a time in at most {p:n} % of the windows, with 95 % confidence", "de {w} en {n} ventanas de {s} s: de los pods que puedan coincidir en un dispositivo compartido trabajan más de {c} a la vez como mucho en el {p} % de las ventanas, con un 95 % de confianza"),
    ("", "what works together at another hour waits for its turn: log the busiest day of the week before you carry this out", "lo que trabaje a la vez a otra hora espera su turno: registre el día más cargado de la semana antes de llevarlo a cabo"),

    // What is said of a saved answer of Prometheus.
    ("", "{n:samples} [is|are] NaN or infinite and {out:n} out of the metric's range, of {all:n}; they were left out", "{n} con NaN o infinito y {out} fuera del intervalo de la métrica, de {all}; se dejaron fuera"),
    ("samples", "1 sample", "1 muestra"),
    ("samples", "{n:n} samples", "{n} muestras"),
    ("", "look at the exporter: it writes such values where a counter cannot be read", "mire el exporter: escribe valores así donde no puede leer un contador"),
    ("", "times go back in {n:n} series; the samples were taken by their times", "los tiempos van hacia atrás en {n} series; las muestras se tomaron por su hora"),
    ("", "Prometheus writes rising times: save the answer again if somebody edited the file", "Prometheus escribe tiempos crecientes: guarde la respuesta de nuevo si alguien editó el fichero"),
    ("", "Prometheus warned, so the answer may be partial: {said}", "Prometheus avisó, así que la respuesta puede ser parcial: {said}"),
    ("", "look whether all its stores answered, and save the answer again", "mire si respondieron todos sus almacenes, y guarde la respuesta de nuevo"),
    ("", "nothing to do where the exporter does not offer that metric (profiling counters may be off)", "no hay nada que hacer donde el exporter no ofrece esa métrica (los contadores de perfil pueden estar apagados)"),

    // Snapshots as a series.
    ("", "{series:series}: {more:pods} more than today, of {names:seenlist} (there in so many snapshots); {sum:sum}", "{series}: {more} más que hoy, de {names} (presentes en tantas instantáneas); {sum}"),
    ("", "{series:series}: {more:pods} more than today, of {names:seenlist} (there in so many snapshots)", "{series}: {more} más que hoy, de {names} (presentes en tantas instantáneas)"),
    ("", "{series:series}; {sum:sum}", "{series}; {sum}"),
    ("", "{series:series}", "{series}"),
    ("series", "{n:snapshots} read as a series in time, the last one as today; each workload counts with the most pods it had at once", "{n} leídas como una serie en el tiempo, la última como hoy; cada carga cuenta con el mayor número de pods que tuvo a la vez"),
    ("sum", "these maxima add up to {then:n} devices, though at most {at:n} were asked for at once (today {now:n}): whether two workloads can never meet is not known", "estos máximos suman {then} dispositivos, aunque como mucho se pidieron {at} a la vez (hoy {now}): no se sabe si dos cargas no pueden coincidir nunca"),
    ("seenlist", "{one:seen}, {rest:seenlist}", "{one}, {rest}"),
    ("seenlist", "{one:seen} and {n:n} more", "{one} y {n} más"),
    ("seenlist", "{one:seen}", "{one}"),
    ("seen", "{name:word} ({n:n} of {all:n})", "{name} ({n} de {all})"),
    ("snapshots", "1 snapshot", "1 instantánea"),
    ("snapshots", "{n:n} snapshots", "{n} instantáneas"),
    ("", "the latest time in a snapshot ({now:word}) is before that of the snapshot given ahead of it ({before:word}); the last one given counts as today", "la hora más reciente de una instantánea ({now}) es anterior a la de la que se dio antes ({before}); la última que se dio cuenta como hoy"),
    ("", "if two workloads never run at the same time, say so: set count to 0 for one of them in a Demand", "si dos cargas nunca se ejecutan a la vez, dígalo: ponga count a 0 para una de ellas en un Demand"),
    ("", "name the files in the order in which they were taken", "nombre los ficheros en el orden en que se tomaron"),

    // Documents that name nobody.
    ("", "no pod of it was observed, so it is planned for as new work; {near:word} was observed in that namespace", "no se observó ningún pod suyo, así que se planifica como trabajo nuevo; en ese espacio de nombres se observó {near}"),
    ("", "write `name: {near:word}` (and its kind, or none) if that is what was meant", "escriba `name: {near}` (y su kind, o ninguno) si es lo que se quería decir"),

    // Where prices come from. A name of a file is no sentence and stays as it is.
    ("source", "list prices of {list:word} ({terms:terms}, as in {file}), {more:source}", "precios de lista de {list} ({terms}, según {file}), {more}"),
    ("source", "list prices of {list:word} ({terms:terms}, as in {file})", "precios de lista de {list} ({terms}, según {file})"),
    ("source", "{terms:terms}, as in {file}", "{terms}, según {file}"),
    ("source", "{file}", "{file}"),
    ("terms", "Linux on-demand", "Linux a demanda"),
    ("terms", "Linux pay-as-you-go", "Linux con pago por uso"),
];
